//! Reads many commits: several `git` processes get the names and answer in the same order, one with
//! the commit objects, others with the changes.

use std::process::Stdio;

use consign_artifacts::hex;
use ring::digest::{Context, SHA256};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader},
    process::ChildStdout,
};

use super::{
    command::{Git, RunningCommand},
    commit::Commit,
    numstat::{Field, Numbers, field},
    walk::HAND,
};
use crate::{NewCommit, ScmError, derive};

const PIPE_BYTES: usize = 64 << 10;
/// Maximum stored size of a commit object.
const COMMIT_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a field; paths are shorter.
const FIELD_BYTES_MAX: usize = 16 << 10;

/// Commits, one after the other.
#[derive(Debug)]
pub(super) struct Commits {
    git: Git,
    objects: (RunningCommand, BufReader<ChildStdout>),
    /// Diffs are most of the work, so several processes share it.
    changes: Vec<Changes>,
    read: u64,
    buffer: Vec<u8>,
}

impl Commits {
    /// Commits whose names are in the inputs: all of them, and the shares.
    pub(super) fn open(git: &Git, all: Stdio, dealt: Vec<Stdio>) -> Result<Self, ScmError> {
        let dealt = dealt.into_iter().map(|input| Changes::open(git, input));
        Ok(Self {
            git: git.clone(),
            objects: start(git, &["cat-file", "--batch", "--buffer"], all)?,
            changes: dealt.collect::<Result<_, _>>()?,
            read: 0,
            buffer: Vec::new(),
        })
    }

    /// The next commit; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<NewCommit>, ScmError> {
        let Some((sha, commit, sha256, is_cut)) = self.object().await? else {
            return Ok(None);
        };
        let turn = (self.read / HAND) as usize % self.changes.len();
        self.read += 1;
        let numbers = self.changes[turn].numbers(&sha).await?;
        Ok(Some(record(sha, commit, sha256, is_cut, numbers)))
    }

    /// Waits for the programs, which have no more output.
    pub(super) async fn finish(self) -> Result<(), ScmError> {
        let changes = self.changes.into_iter().map(|changes| changes.running);
        for running in std::iter::once(self.objects.0).chain(changes) {
            let finished = running.finish().await?;
            finished.map_err(|failure| failure.here(&self.git.name))?;
        }
        Ok(())
    }

    async fn object(&mut self) -> Result<Option<(String, Commit, String, bool)>, ScmError> {
        let reader = &mut self.objects.1;
        let read = line(reader, &mut self.buffer, b'\n');
        if !self.git.in_time(read).await? {
            return Ok(None);
        }
        let header = String::from_utf8_lossy(&self.buffer).into_owned();
        let mut words = header.split(' ');
        let (sha, kind) = (words.next().unwrap_or_default(), words.next());
        let size = words.next().and_then(|size| size.parse::<u64>().ok());
        let (Some("commit"), Some(size)) = (kind, size) else {
            return Err(odd(&self.git, "cat-file", &header));
        };
        let mut context = Context::new(&SHA256);
        let kept = object(reader, size, &mut context);
        let kept = self.git.in_time(kept).await?;
        let is_cut = size > COMMIT_BYTES_MAX;
        let sha256 = hex(context.finish().as_ref());
        Ok(Some((sha.to_owned(), Commit::parse(&kept), sha256, is_cut)))
    }
}

/// Changes of commits in order.
#[derive(Debug)]
struct Changes {
    git: Git,
    running: RunningCommand,
    reader: BufReader<ChildStdout>,
    /// The commit whose files come next: reading its name ended the one before.
    ahead: Option<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Changes {
    fn open(git: &Git, names: Stdio) -> Result<Self, ScmError> {
        let wanted = [
            "diff-tree",
            "--stdin",
            "-r",
            "-z",
            "--numstat",
            "-M",
            "--root",
        ];
        // A merge is compared with its first parent.
        let safe = [
            "--always",
            "--diff-merges=first-parent",
            "--no-ext-diff",
            "--no-textconv",
        ];
        let (running, reader) = start(git, &[&wanted[..], &safe[..]].concat(), names)?;
        Ok(Self {
            git: git.clone(),
            running,
            reader,
            ahead: None,
            buffer: Vec::new(),
        })
    }

    /// The changes of the next commit, which must be this one.
    async fn numbers(&mut self, sha: &str) -> Result<Numbers, ScmError> {
        let mut numbers = Numbers::default();
        let mut is_begun = match self.ahead.take() {
            Some(ahead) if ahead == sha.as_bytes() => true,
            Some(ahead) => return Err(self.odd(&String::from_utf8_lossy(&ahead))),
            None => false,
        };
        while self.field().await? {
            match (field(&self.buffer), is_begun) {
                (Some(Field::Commit(name)), false) if name == sha.as_bytes() => is_begun = true,
                (Some(Field::Commit(name)), true) => {
                    self.ahead = Some(name.to_vec());
                    return Ok(numbers);
                }
                (
                    Some(Field::File {
                        lines,
                        path: Some(path),
                    }),
                    true,
                ) => numbers.add(lines, path),
                (Some(Field::File { lines, path: None }), true) => {
                    // The old name, then the new one.
                    if !(self.field().await? && self.field().await?) {
                        return Err(self.odd("a renamed file has only one name"));
                    }
                    numbers.add(lines, &self.buffer);
                }
                _ => return Err(self.odd(&self.buffer.escape_ascii().to_string())),
            }
        }
        if is_begun {
            Ok(numbers)
        } else {
            Err(self.odd(&format!("no changes for {sha}")))
        }
    }

    async fn field(&mut self) -> Result<bool, ScmError> {
        let read = line(&mut self.reader, &mut self.buffer, b'\0');
        self.git.in_time(read).await
    }

    fn odd(&self, what: &str) -> ScmError {
        odd(&self.git, "diff-tree", what)
    }
}

fn odd(git: &Git, program: &str, what: &str) -> ScmError {
    ScmError::Protocol {
        source_name: git.name.clone(),
        detail: format!("git {program}: {what}"),
    }
}

fn start(
    git: &Git,
    arguments: &[&str],
    stdin: Stdio,
) -> Result<(RunningCommand, BufReader<ChildStdout>), ScmError> {
    let mut running = git.spawn(arguments, stdin, Stdio::piped())?;
    let stdout = running.stdout.take().expect("invariant: stdout is piped");
    Ok((running, BufReader::with_capacity(PIPE_BYTES, stdout)))
}

/// Reads up to a delimiter, which is dropped; returns whether there was any input. Too long input
/// is cut.
async fn line(
    reader: &mut (impl AsyncBufRead + Unpin),
    buffer: &mut Vec<u8>,
    delimiter: u8,
) -> std::io::Result<bool> {
    buffer.clear();
    let mut is_begun = false;
    loop {
        let read = reader.fill_buf().await?;
        if read.is_empty() {
            return Ok(is_begun);
        }
        is_begun = true;
        let end = read.iter().position(|byte| *byte == delimiter);
        let piece = &read[..end.unwrap_or(read.len())];
        let room = FIELD_BYTES_MAX.saturating_sub(buffer.len());
        buffer.extend_from_slice(&piece[..piece.len().min(room)]);
        let used = piece.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// Reads an object and the line end after it. All of it is hashed; too long objects are cut.
async fn object(
    reader: &mut (impl AsyncBufRead + Unpin),
    size: u64,
    context: &mut Context,
) -> std::io::Result<Vec<u8>> {
    let mut kept = Vec::with_capacity(size.min(COMMIT_BYTES_MAX) as usize);
    let mut left = size;
    while left > 0 {
        let read = reader.fill_buf().await?;
        if read.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let piece = &read[..read.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        context.update(piece);
        let room = (COMMIT_BYTES_MAX as usize).saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..piece.len().min(room)]);
        let used = piece.len();
        left -= used as u64;
        reader.consume(used);
    }
    reader.read_u8().await?;
    Ok(kept)
}

/// The record of a commit. It depends on the commit alone: the same commit gives the same record
/// everywhere.
fn record(
    sha: String,
    commit: Commit,
    sha256: String,
    is_cut: bool,
    numbers: Numbers,
) -> NewCommit {
    let mut meta = json!({
        "parents": commit.parents,
        "additions": numbers.additions,
        "deletions": numbers.deletions,
        "paths": numbers.paths,
        "paths_total": numbers.paths_total,
        "record_sha256": sha256,
    });
    if commit.is_lossy || numbers.is_lossy {
        meta["lossy"] = Value::Bool(true);
    }
    if is_cut {
        meta["truncated"] = Value::Bool(true);
    }
    NewCommit {
        commit_sha: sha,
        author_raw: commit.author,
        ts: commit.ts,
        message: commit.message,
        is_merge: commit.parents.len() > 1,
        bulk_reason: derive::bulk_reason_of_lines(numbers.additions, numbers.deletions),
        meta_json: meta,
    }
}
