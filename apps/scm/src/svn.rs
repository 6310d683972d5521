//! Subversion, read with the program `svn`.

mod failure;
#[cfg(test)]
mod foreign;
mod info;
mod log;
mod program;
mod stat;
mod url;
mod xml;

use async_trait::async_trait;
use serde_json::{Value, json};

use self::{
    info::Info,
    log::Log,
    program::{Program, Reader},
    stat::Stat,
};
use crate::{
    BatchSender, NewRevision, PatchWriter, Records, Repo, Retry, ScmError, Source, SourceBatch,
    SourceOptions, SourcePosition, Stream, Watermark,
};

/// Maximum revisions per query where few of them touch the folder.
const SPAN_MAX: i64 = 1 << 16;

/// A Subversion repository, or a folder of one.
#[derive(Debug)]
pub struct SvnSource {
    url: String,
    name: String,
    program: Program,
    batch_records_max: usize,
    retry: Retry,
}

impl SvnSource {
    /// A repository, or a folder of one, by its URL: `svn`, `svn+ssh`, `http`, `https` or `file`.
    pub fn open(repo: &Repo, options: &SourceOptions) -> Result<Self, ScmError> {
        let url = url::checked(&repo.url)?;
        match url::host(&url) {
            Some(host) => options.reach.check_named(&url, host)?,
            None => options.reach.check_file_url(&url)?,
        }
        Ok(Self {
            program: Program::new(&url, options),
            name: url.clone(),
            url,
            batch_records_max: options.batch_records_max.max(1),
            retry: options.retry.clone(),
        })
    }

    /// The URL with a peg revision, so that an `@` in it is part of the name.
    fn at(&self, revision: impl std::fmt::Display) -> String {
        format!("{}@{revision}", self.url)
    }

    async fn info(&self) -> Result<Info, ScmError> {
        let mut info = Info::default();
        let arguments = ["info", "--xml", &self.at("HEAD")];
        self.program.read_xml(&arguments, &mut info).await?;
        if info.uuid.is_empty() {
            Err(ScmError::Protocol {
                source_name: self.name.clone(),
                detail: "svn info: no repository uuid".into(),
            })
        } else {
            Ok(info)
        }
    }

    /// The revisions of a range that touch the folder, oldest first, at most a batch.
    async fn log(&self, info: &Info, first: i64, last: i64) -> Result<Window, ScmError> {
        let mut log = Log::new(&info.uuid, &info.folder);
        let range = format!("{first}:{last}");
        let limit = self.batch_records_max.to_string();
        let at = self.at(info.head);
        let begin = ["log", "--xml", "--verbose", "-r", &range];
        let arguments = [&begin[..], &["--limit", &limit, &at]].concat();
        self.program.read_xml(&arguments, &mut log).await?;
        let is_cut_short = log.is_full();
        let found = log.into_revisions();
        let is_full = is_cut_short || found.len() >= self.batch_records_max;
        let done = match found.last() {
            Some(newest) if is_full => newest.rev_num,
            _ => last,
        };
        Ok(Window {
            found,
            is_full,
            done,
        })
    }

    /// The same, wherever the folder was at the end of the range. For a folder that did not exist
    /// then, `svn` lists nothing, though it may have existed earlier in the range (deleted and
    /// restored). It exists in the newest revision, from which its past is found.
    async fn window(&self, info: &Info, first: i64, last: i64) -> Result<Window, ScmError> {
        match self.log(info, first, last).await {
            Err(error) if failure::is_elsewhere(&error) && last < info.head => {
                self.log(info, first, info.head).await
            }
            window => window,
        }
    }

    /// The next revision; fails if the repository is not the one that was read before.
    fn begin(&self, from: &Watermark, info: &Info) -> Result<i64, ScmError> {
        let place = |name: &str| from.place.get(name);
        let last = place("last_rev")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let uuid = place("uuid").and_then(Value::as_str);
        let refused = |detail: String| {
            Err(ScmError::NotFound {
                source_name: self.name.clone(),
                detail,
            })
        };
        if let Some(uuid) = uuid.filter(|uuid| *uuid != info.uuid) {
            let now = &info.uuid;
            return refused(format!(
                "the repository was replaced: it has uuid {now}, but {uuid} was read; add it under \
                 another URL"
            ));
        }
        if info.head < last {
            return refused(format!(
                "its last revision is {}, but {last} was read: it was replaced or restored",
                info.head
            ));
        }
        Ok(last)
    }

    /// Runs `svn diff` with the folder's current path, then with its former one.
    async fn diff_output(&self, rev_or_sha: &str) -> Result<Diff, ScmError> {
        let revision: i64 = rev_or_sha
            .parse()
            .ok()
            .filter(|it| *it > 0)
            .ok_or_else(|| {
                ScmError::Invalid(format!("{rev_or_sha:?} is not a Subversion revision"))
            })?;
        let revision = revision.to_string();
        let start = |at: String| {
            // Ignores diff programs in the user's settings.
            let arguments = ["diff", "--internal-diff", "-c", &revision, &at];
            self.program.start(&arguments)
        };
        let mut output = start(self.at("HEAD"))?;
        let first = match output.next().await {
            Err(error) if failure::is_elsewhere(&error) => {
                output = start(self.at(&revision))?;
                output.next().await?.map(<[u8]>::to_vec)
            }
            first => first?.map(<[u8]>::to_vec),
        };
        Ok(Diff { first, output })
    }
}

/// A part of the log.
struct Window {
    found: Vec<NewRevision>,
    /// Whether the batch is full.
    is_full: bool,
    /// The last revision that was read.
    done: i64,
}

/// A diff whose first piece was read.
struct Diff {
    first: Option<Vec<u8>>,
    output: program::Output,
}

#[async_trait]
impl Source for SvnSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn streams(&self) -> &[Stream] {
        &[Stream::Svn]
    }

    async fn read(&self, _: Stream, from: &Watermark, to: &BatchSender) -> Result<(), ScmError> {
        let info = self.retry.run(async || self.info().await).await?;
        let batch = i64::try_from(self.batch_records_max).unwrap_or(SPAN_MAX);
        let (mut done, mut span) = (self.begin(from, &info)?, batch);
        while done < info.head {
            let (first, last) = (done + 1, info.head.min(done.saturating_add(span)));
            let window = self
                .retry
                .run(async || self.window(&info, first, last).await)
                .await?;
            done = window.done;
            let found = window.found;
            let count = i64::try_from(found.len()).unwrap_or(batch);
            span = match count {
                _ if window.is_full => batch.max(span / 2),
                few if few < batch / 4 => SPAN_MAX.max(batch).min(span.saturating_mul(2)),
                _ => span,
            };
            if found.is_empty() && done < info.head {
                continue;
            }
            let mut place = SourcePosition::new();
            place.insert("last_rev".into(), json!(done));
            place.insert("uuid".into(), json!(info.uuid));
            // Unknown for a subfolder.
            let remaining = (info.folder == "/").then(|| (info.head - done).unsigned_abs());
            to.send(SourceBatch {
                records: Records::Revisions(found),
                place,
                remaining,
                notes: Vec::new(),
            })
            .await?;
        }
        Ok(())
    }

    async fn diff(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        let mut diff = self.diff_output(rev_or_sha).await?;
        let Some(first) = diff.first else {
            return Ok(());
        };
        to.write(&first).await?;
        while let Some(bytes) = diff.output.next().await? {
            to.write(bytes).await?;
        }
        Ok(())
    }

    async fn diffstat(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        let (mut diff, mut stat) = (self.diff_output(rev_or_sha).await?, Stat::default());
        let Some(first) = diff.first else {
            return Ok(());
        };
        to.write(&stat.push(&first)).await?;
        while let Some(bytes) = diff.output.next().await? {
            let lines = stat.push(bytes);
            to.write(&lines).await?;
        }
        to.write(&stat.finish()).await
    }
}
