//! Patches of commits and revisions as evidence.

use consign_artifacts::uri::{parse_evidence_uri, parse_uri};
use consign_scm::{LedgerError, PatchState, ScmLedger};
use tracing::warn;

use super::{
    MemoryService, mismatch,
    read::{EvidenceLocation, artifact_key},
};
use crate::tools::Refusal;

impl MemoryService {
    /// The file of a patch, and its expected hash.
    pub(super) async fn locate_patch(&self, uri: &str) -> Result<EvidenceLocation, Refusal> {
        let Some(scm) = self.scm() else {
            let why = "this gateway has no repositories";
            return Err(Refusal::new("NOT_IMPLEMENTED", why));
        };
        let patch = find(scm, uri).await?;
        let Some(stored_uri) = patch.uri.as_deref() else {
            let why = "the change has not been fetched; run `consign scm materialize`";
            return Err(Refusal::new("ARTIFACT_NOT_FOUND", why));
        };
        Ok(EvidenceLocation {
            uri: stored_uri.to_owned(),
            key: artifact_key(stored_uri)?,
            sha256: Some(patch.sha256.clone()),
            attachment: None,
            patch: Some(patch),
        })
    }
}

/// The patch that a reference names: by source and hash, by its hash alone
/// (`memory://patch_blobs/sha256/<hash>`), by its number (`memory://patch_blobs/blob_id/<number>`), or
/// by its source alone.
async fn find(scm: &dyn ScmLedger, uri: &str) -> Result<PatchState, Refusal> {
    let nowhere = || Refusal::new("NOT_FOUND", format!("change {uri} does not exist"));
    if let Some(named) = parse_evidence_uri(uri) {
        let expected = named.sha256.to_ascii_lowercase();
        let source_type = named.source_type.to_ascii_lowercase();
        let is_match = |patch: &PatchState| {
            (&patch.source_type, &patch.source_id) == (&source_type, &named.source_id)
        };
        let current = by_source(scm, &source_type, &named.source_id).await?;
        if let Some(patch) = current.clone().filter(|patch| patch.sha256 == expected) {
            return Ok(patch);
        }
        // An earlier version of the same patch that is still referenced.
        let earlier = scm.patch_by_sha(&expected).await.map_err(failed)?;
        return match (earlier, current) {
            (Some(patch), _) if is_match(&patch) => Ok(patch),
            (_, Some(other)) => Err(mismatch(uri, &expected, &other.sha256)),
            (Some(other), None) => {
                let why = format!(
                    "hash {expected} belongs to {}, not to {}",
                    other.source_id, named.source_id
                );
                Err(Refusal::new("CHECKSUM_MISMATCH", why))
            }
            (None, None) => Err(nowhere()),
        };
    }
    let path = parse_uri(uri).path;
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let found = match segments[..] {
        [_, "blob_id", number] => match number.parse() {
            Ok(blob_id) => scm.patch_by_id(blob_id).await.map_err(failed)?,
            Err(_) => None,
        },
        [_, "sha256", sha256] => scm.patch_by_sha(sha256).await.map_err(failed)?,
        [_, source_type, source_id] => by_source(scm, source_type, source_id).await?,
        _ => {
            let why = "must be memory://patch_blobs/<source_type>/<source_id>/<sha256>";
            return Err(Refusal::new("INVALID_URI", why));
        }
    };
    found.ok_or_else(nowhere)
}

async fn by_source(
    scm: &dyn ScmLedger,
    source_type: &str,
    source_id: &str,
) -> Result<Option<PatchState>, Refusal> {
    let Some((repo_id, rev_or_sha)) = source_id.split_once(':') else {
        return Ok(None);
    };
    let Ok(repo_id) = repo_id.parse() else {
        return Ok(None);
    };
    let found = scm.patch(repo_id, rev_or_sha).await.map_err(failed)?;
    Ok(found.filter(|patch| patch.source_type == source_type))
}

fn failed(error: LedgerError) -> Refusal {
    warn!(%error, "a change could not be looked up");
    Refusal::new("LOGBOOK_UNAVAILABLE", error.to_string()).retryable()
}
