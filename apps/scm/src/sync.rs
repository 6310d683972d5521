//! Writes the records of a source into the ledger, in batches with their watermarks.

mod records;
mod refused;

use std::{collections::HashSet, pin::pin};

use consign_artifacts::Artifacts;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::{
    Batch, BatchSender, Diffs, MaterializeReport, Point, Progress, Records, Repo, Retry, ScmError,
    ScmLedger, Source, SourceBatch, Stream, SyncHooks, SyncOptions, Watermark,
};

/// Batches that a source may read ahead.
const BATCHES_AHEAD: usize = 2;

/// Result of a synchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SyncReport {
    /// New records.
    pub written: u64,
    /// Records that existed.
    pub known: u64,
    /// Records that the database rejected (best effort only).
    pub skipped: u64,
    /// Changes fetched with them.
    pub patches: MaterializeReport,
}

/// Synchronises one repository.
pub struct Synchronizer<'a> {
    /// The ledger.
    pub ledger: &'a dyn ScmLedger,
    /// The source.
    pub source: &'a dyn Source,
    /// The repository.
    pub repo: &'a Repo,
    /// Storage of changes.
    pub artifacts: &'a Artifacts,
    /// Options.
    pub options: SyncOptions,
    /// Retries of failed changes.
    pub retry: &'a Retry,
    /// Observer.
    pub hooks: &'a dyn SyncHooks,
    /// True once the process drains: the current batch is written, nothing after it.
    pub stop: watch::Receiver<bool>,
}

impl std::fmt::Debug for Synchronizer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Synchronizer")
            .field("repo", self.repo)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Synchronizer<'_> {
    /// Brings the ledger up to date. Records written before an error are kept, and the next
    /// synchronisation continues from there.
    pub async fn sync(&self) -> Result<SyncReport, ScmError> {
        self.unless_stopped(self.source.prepare()).await?;
        self.hooks.reached(Point::AfterFetch).await;
        let mut synced = SyncReport::default();
        for stream in self.source.streams() {
            self.stream(*stream, &mut synced).await?;
        }
        Ok(synced)
    }

    async fn stream(&self, stream: Stream, synced: &mut SyncReport) -> Result<(), ScmError> {
        let stored = self.ledger.watermark(self.repo.repo_id, stream).await?;
        let watermark = Watermark::read(stored.as_ref());
        let (outlet, found) = BatchSender::new(BATCHES_AHEAD);
        let from = &watermark;
        let reading = async move {
            let read = self.source.read(stream, from, &outlet).await;
            drop(outlet);
            read
        };
        let mut writer = Writer::new(self, stream, stored, synced);
        let read = {
            let (mut reading, mut writing) = (pin!(reading), pin!(writer.run(found)));
            // A ledger failure ends the source at once; a source failure is returned after its
            // records are written.
            tokio::select! {
                biased;
                written = &mut writing => match written {
                    Ok(()) => reading.await,
                    Err(error) => Err(error),
                },
                read = &mut reading => writing.await.and(read),
            }
        };
        read?;
        writer.touch(&watermark).await
    }

    /// Waits for a future until the process drains.
    pub(crate) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, ScmError>>,
    ) -> Result<T, ScmError> {
        tokio::select! {
            biased;
            () = stopped(self.stop.clone()) => Err(ScmError::Stopped),
            done = work => done,
        }
    }
}

/// Completes when the process drains.
async fn stopped(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|is_stopping| *is_stopping).await.is_err() {
        // The sender is gone: no more drain signals.
        std::future::pending::<()>().await;
    }
}

/// The ledger's end of the channel.
struct Writer<'s, 'a> {
    this: &'s Synchronizer<'a>,
    stream: Stream,
    /// The stored watermark.
    stored: Option<Value>,
    /// Records of this stream so far.
    done: u64,
    synced: &'s mut SyncReport,
    /// Whether changes are still fetched: not from an unreachable source.
    fetches: bool,
    has_written: bool,
    /// Changes of the current batch whose records were skipped.
    skipped: HashSet<String>,
}

impl<'s, 'a> Writer<'s, 'a> {
    fn new(
        this: &'s Synchronizer<'a>,
        stream: Stream,
        stored: Option<Value>,
        synced: &'s mut SyncReport,
    ) -> Self {
        Self {
            this,
            stream,
            stored,
            done: 0,
            synced,
            fetches: this.options.diffs == Diffs::Now,
            has_written: false,
            skipped: HashSet::new(),
        }
    }

    async fn run(&mut self, mut found: mpsc::Receiver<SourceBatch>) -> Result<(), ScmError> {
        let stop = self.this.stop.clone();
        loop {
            let next = tokio::select! {
                biased;
                () = stopped(stop.clone()) => return Err(ScmError::Stopped),
                next = found.recv() => next,
            };
            match next {
                Some(found) => self.write(found).await?,
                None => return Ok(()),
            }
        }
    }

    async fn write(&mut self, found: SourceBatch) -> Result<(), ScmError> {
        for note in &found.notes {
            let repo_id = self.this.repo.repo_id;
            self.this
                .ledger
                .note(repo_id, note.event_type, &note.payload)
                .await?;
        }
        let mut names = if self.fetches {
            found.records.changes()
        } else {
            Vec::new()
        };
        self.done += found.records.len() as u64;
        let to = self.watermark(found.place);
        self.record(found.records, to).await?;
        // A change needs its record.
        let skipped = std::mem::take(&mut self.skipped);
        names.retain(|name| !skipped.contains(name));
        self.has_written = true;
        self.this.hooks.progressed(Progress {
            stream: Some(self.stream),
            done: self.done,
            total: found.remaining.map(|remaining| self.done + remaining),
        });
        self.this.hooks.reached(Point::AfterBatch).await;
        self.fetch(names).await
    }

    /// Writes records and moves the watermark.
    async fn record(&mut self, records: Records, to: Value) -> Result<(), ScmError> {
        let batch = self.batch(records, to);
        match self.this.ledger.record(&batch).await {
            Ok(recorded) => {
                self.count(recorded);
                self.stored = Some(batch.to);
                Ok(())
            }
            Err(error) => self.refused(batch, error).await,
        }
    }

    fn batch(&self, records: Records, to: Value) -> Batch {
        Batch {
            repo_id: self.this.repo.repo_id,
            stream: self.stream,
            from: self.stored.clone(),
            to,
            records,
        }
    }

    fn count(&mut self, recorded: crate::BatchResult) {
        self.synced.written += recorded.written;
        self.synced.known += recorded.known;
    }

    fn watermark(&self, place: crate::SourcePosition) -> Value {
        let watermark = Watermark {
            place,
            last_sync_at: Some(Timestamp::now().to_string()),
            last_sync_count: self.done,
        };
        watermark.to_value()
    }

    /// Fetches changes of the written records. A failed one is left for later; an unreachable
    /// source is not tried again.
    async fn fetch(&mut self, names: Vec<String>) -> Result<(), ScmError> {
        for name in names {
            let fetched = self.this.patch_unless_here(&name);
            let fetched = self.this.unless_stopped(fetched).await?;
            self.synced.patches.count(&fetched);
            if fetched.is_unreachable() {
                self.fetches = false;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Records a synchronisation without new records.
    async fn touch(&mut self, read: &Watermark) -> Result<(), ScmError> {
        if self.has_written || self.stored.is_none() {
            return Ok(());
        }
        let to = self.watermark(read.place.clone());
        self.record(Records::none(self.stream), to).await
    }
}
