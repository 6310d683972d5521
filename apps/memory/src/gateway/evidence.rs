//! Evidence: texts kept in files, named by their hashes. It belongs to the space of its item.

mod patches;
mod read;
mod upload;

use consign_artifacts::Artifacts;
use serde_json::json;

pub(crate) use self::{
    read::EvidenceRead,
    upload::{CONTENT_TYPES, EvidenceUpload},
};
use super::{MemoryService, refused};
use crate::{
    Attachment, AttachmentFilter, Caller,
    tools::Refusal,
    uri::{mask_credentials, normalize_to_artifact_key},
};

impl MemoryService {
    fn artifacts(&self) -> Artifacts {
        Artifacts::new(&self.options().artifacts_root)
    }

    /// Refuses a file that belongs only to items whose spaces are closed to the caller. A file that
    /// belongs to no item is the project's.
    pub(crate) async fn check_file(&self, caller: &Caller, key: &str) -> Result<(), Refusal> {
        if !caller.is_bound() {
            return Ok(());
        }
        let owners = self.attachments_of(key).await?;
        let is_open = |owner: &Attachment| self.may_see(caller, owner.space.as_deref());
        match owners.is_empty() || owners.iter().any(is_open) {
            true => Ok(()),
            false => Err(closed()),
        }
    }

    /// What a file is attached to, however its key is written there.
    async fn attachments_of(&self, key: &str) -> Result<Vec<Attachment>, Refusal> {
        let mut found = Vec::new();
        for uri in [key.to_owned(), format!("artifact://{key}")] {
            let filter = AttachmentFilter {
                uri: Some(uri),
                ..AttachmentFilter::default()
            };
            let attached = self.logbook().attachments(&filter, OWNERS_MAX).await;
            found.extend(attached.map_err(refused)?);
        }
        Ok(found)
    }
}

/// So many attachments of one file are looked at.
const OWNERS_MAX: u32 = 1_000;

/// The space that something belongs to is closed to the caller.
pub(crate) fn closed() -> Refusal {
    let why = "it belongs to a private space of somebody else";
    Refusal::new("SPACE_FORBIDDEN", why)
}

/// A key as it is stored: one spelling for each file. What is no key stays as it is, but for
/// credentials: `//user:password@host` would be taken for a path.
pub(crate) fn plain_key(uri: &str) -> String {
    let uri = mask_credentials(uri);
    normalize_to_artifact_key(&uri).unwrap_or_else(|_| uri.into_owned())
}

fn mismatch(uri: &str, expected: &str, actual: &str) -> Refusal {
    let details = json!({"uri": uri, "expected_sha256": expected, "actual_sha256": actual});
    let why = "the content is not what the reference says";
    Refusal::new("CHECKSUM_MISMATCH", why).with_details(details)
}
