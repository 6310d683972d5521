//! Writes a change to its file.

use std::{fmt, io};

use consign_artifacts::{Artifacts, Draft};

use crate::ScmError;

/// Most changes are smaller and are written in one piece.
const BUFFER_BYTES: usize = 256 << 10;

/// Takes a change in pieces with little memory. Beyond the limit it only counts.
pub struct PatchWriter {
    artifacts: Artifacts,
    bytes_max: u64,
    seen_bytes: u64,
    buffer: Vec<u8>,
    draft: Option<Draft>,
    degrade_reason: Option<String>,
}

impl PatchWriter {
    /// A change of at most so many bytes.
    pub fn new(artifacts: &Artifacts, bytes_max: u64) -> Self {
        Self {
            artifacts: artifacts.clone(),
            bytes_max,
            seen_bytes: 0,
            buffer: Vec::new(),
            draft: None,
            degrade_reason: None,
        }
    }

    /// Marks the change as partial: a source may withhold parts of it.
    pub fn degrade(&mut self, reason: impl Into<String>) {
        self.degrade_reason = Some(reason.into());
    }

    /// Why the change is partial, if it is.
    pub fn degrade_reason(&self) -> Option<&str> {
        self.degrade_reason.as_deref()
    }

    /// Adds a piece.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ScmError> {
        self.seen_bytes += bytes.len() as u64;
        if self.is_too_large() {
            self.draft = None;
            self.buffer = Vec::new();
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Size of the change, including what exceeded the limit.
    pub fn seen_bytes(&self) -> u64 {
        self.seen_bytes
    }

    /// Whether it exceeded its limit and was discarded.
    pub fn is_too_large(&self) -> bool {
        self.seen_bytes > self.bytes_max
    }

    /// Stores it under the key of its hash; returns hash and key.
    pub(crate) async fn keep(
        mut self,
        key: impl FnOnce(&str) -> Result<String, ScmError>,
    ) -> Result<(String, String), ScmError> {
        debug_assert!(!self.is_too_large(), "it was discarded");
        self.flush().await?;
        let draft = self.draft.take().ok_or_else(gone)?;
        let sha256 = draft.sha256();
        let key = key(&sha256)?;
        let place = key.clone();
        blocking(move || Ok(draft.keep(&place)?)).await?;
        Ok((sha256, key))
    }

    /// Writes the buffer to disk, on a blocking thread.
    async fn flush(&mut self) -> Result<(), ScmError> {
        let buffer = std::mem::take(&mut self.buffer);
        let (draft, artifacts) = (self.draft.take(), self.artifacts.clone());
        let written = blocking(move || {
            let mut draft = match draft {
                Some(draft) => draft,
                None => artifacts.draft().map_err(failed)?,
            };
            draft.write(&buffer).map_err(failed)?;
            Ok(draft)
        });
        self.draft = Some(written.await?);
        Ok(())
    }
}

impl fmt::Debug for PatchWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PatchWriter")
            .field("bytes_max", &self.bytes_max)
            .field("seen_bytes", &self.seen_bytes)
            .finish_non_exhaustive()
    }
}

fn failed(error: io::Error) -> ScmError {
    ScmError::Artifact(consign_artifacts::ArtifactError::Io(error))
}

fn gone() -> ScmError {
    failed(io::Error::other("the draft was closed"))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ScmError> + Send + 'static,
) -> Result<T, ScmError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(gone()),
    }
}
