//! Evidence: files named by their hashes, in the space of their item.

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

    /// Refuses a file whose items are all in spaces that the caller may not use. A file without an item
    /// belongs to the project.
    pub(crate) async fn check_file(&self, caller: &Caller, key: &str) -> Result<(), Refusal> {
        if !caller.is_bound() {
            return Ok(());
        }
        let owners = self.attachments_of(key).await?;
        let is_open = |owner: &Attachment| self.may_see(caller, owner.space.as_deref());
        if owners.is_empty() || owners.iter().any(is_open) {
            Ok(())
        } else {
            Err(closed())
        }
    }

    /// The attachments of a file, with its key in either spelling.
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

/// Attachments of one file that are read.
const OWNERS_MAX: u32 = 1_000;

/// The refusal of a space that the caller may not use.
pub(crate) fn closed() -> Refusal {
    let why = "it belongs to a private space of another user";
    Refusal::new("SPACE_FORBIDDEN", why)
}

/// The normalized key of a file. Other URIs stay as they are, credentials masked:
/// `//user:password@host` would be taken for a path.
pub(crate) fn plain_key(uri: &str) -> String {
    let uri = mask_credentials(uri);
    normalize_to_artifact_key(&uri).unwrap_or_else(|_| uri.into_owned())
}

fn mismatch(uri: &str, expected: &str, actual: &str) -> Refusal {
    let details = json!({"uri": uri, "expected_sha256": expected, "actual_sha256": actual});
    let why = "the hash of the content differs from the reference";
    Refusal::new("CHECKSUM_MISMATCH", why).with_details(details)
}
