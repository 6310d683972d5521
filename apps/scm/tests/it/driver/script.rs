//! A scripted source.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;
use consign_scm::{
    BatchSender, NewCommit, PatchWriter, Records, ScmError, Source, SourceBatch, SourcePosition,
    Stream, Watermark,
};
use serde_json::json;

pub(super) struct Script {
    batches: Vec<Vec<NewCommit>>,
    pub(super) fails_after_reading: bool,
    /// Scripted results of fetching changes.
    pub(super) failing: HashMap<String, fn() -> ScmError>,
    pub(super) requests: Mutex<Vec<String>>,
    pub(super) diff: String,
    pub(super) diffstat: String,
}

impl Script {
    pub(super) fn new(batches: Vec<Vec<NewCommit>>) -> Self {
        Self {
            batches,
            fails_after_reading: false,
            failing: HashMap::new(),
            requests: Mutex::default(),
            diff: "+change\n".to_owned(),
            diffstat: "1 file\n".to_owned(),
        }
    }
}

/// A commit with a number for a name.
pub(super) fn commit(number: u64) -> NewCommit {
    NewCommit {
        commit_sha: format!("{number:040x}"),
        author_raw: "Ann <ann@x>".to_owned(),
        ts: None,
        message: format!("number {number}"),
        is_merge: false,
        bulk_reason: None,
        meta_json: json!({}),
    }
}

/// One that no database takes.
pub(super) fn refused(number: u64) -> NewCommit {
    NewCommit {
        message: "\0".to_owned(),
        ..commit(number)
    }
}

#[async_trait]
impl Source for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn streams(&self) -> &[Stream] {
        &[Stream::Git]
    }

    async fn read(&self, _: Stream, from: &Watermark, to: &BatchSender) -> Result<(), ScmError> {
        let done = from
            .place
            .get("batch")
            .and_then(|batch| batch.as_u64())
            .unwrap_or(0);
        for (n, batch) in (1..).zip(&self.batches).skip(done as usize) {
            let place = SourcePosition::from_iter([("batch".to_owned(), json!(n))]);
            let found = SourceBatch {
                records: Records::Commits(batch.clone()),
                place,
                remaining: None,
                notes: Vec::new(),
            };
            to.send(found).await?;
        }
        if self.fails_after_reading {
            Err(ScmError::Protocol {
                source_name: "script".to_owned(),
                detail: "scripted".to_owned(),
            })
        } else {
            Ok(())
        }
    }

    async fn diff(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        self.requests.lock().unwrap().push(rev_or_sha.to_owned());
        to.write(self.diff.as_bytes()).await?;
        match self.failing.get(rev_or_sha) {
            Some(error) => Err(error()),
            None => Ok(()),
        }
    }

    async fn diffstat(&self, _: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
        to.write(self.diffstat.as_bytes()).await
    }
}
