//! `memory://patch_blobs/<source_type>/<source_id>/<sha256>`.

use std::fmt;

use super::{
    UriType, parse_uri,
    text::{decoded, encoded, is_sha256},
};

const ROOM: &str = "patch_blobs";

/// Evidence that is a change to a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchUri {
    /// `git`, `svn` and so on, as it was written.
    pub source_type: String,
    /// `<repo>:<revision>`, decoded.
    pub source_id: String,
    /// The hash as it was written, which may be none: see [`PatchUri::is_strong`].
    pub sha256: String,
}

impl PatchUri {
    /// Whether the hash is one.
    pub fn is_strong(&self) -> bool {
        is_sha256(&self.sha256)
    }
}

/// In its canonical form.
impl fmt::Display for PatchUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = build_evidence_uri(&self.source_type, &self.source_id, &self.sha256);
        f.write_str(&uri)
    }
}

/// The URI of a change, canonical: type and hash in lower case. What can be read back reads the same.
pub fn build_evidence_uri(source_type: &str, source_id: &str, sha256: &str) -> String {
    let source_type = encoded(source_type.trim()).to_lowercase();
    let source_id = encoded(source_id.trim());
    let sha256 = encoded(sha256.trim()).to_lowercase();
    format!("memory://{ROOM}/{source_type}/{source_id}/{sha256}")
}

/// The URI of a change by its repository and revision.
pub fn build_evidence_uri_of(
    source_type: &str,
    repo_id: i64,
    rev_or_sha: &str,
    sha256: &str,
) -> String {
    let source_id = format!("{repo_id}:{}", rev_or_sha.trim());
    build_evidence_uri(source_type, &source_id, sha256)
}

/// Reads the URI of a change; none if it is no such URI, or a short form of one.
///
/// Four segments, no more: a `/` inside of an id is encoded, so that it is clear where the id
/// ends.
pub fn parse_evidence_uri(uri: &str) -> Option<PatchUri> {
    let parsed = parse_uri(uri);
    if parsed.uri_type != UriType::Memory || parsed.has_query {
        return None;
    }
    let mut segments = parsed.path.trim_matches('/').split('/');
    let segments = [(); 5].map(|()| segments.next());
    let [
        Some(ROOM),
        Some(source_type),
        Some(source_id),
        Some(sha256),
        None,
    ] = segments
    else {
        return None;
    };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let source_id = decoded(source_id)?;
    let mut steps = source_id.split('/');
    let is_fit = !source_type.is_empty()
        && source_type.bytes().all(is_word)
        && !steps.any(|step| ["", ".", ".."].contains(&step))
        && !sha256.is_empty()
        && sha256.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_fit.then(|| PatchUri {
        source_type: source_type.to_owned(),
        source_id,
        sha256: sha256.to_owned(),
    })
}

/// Whether it is about a change at all, in short forms as well.
pub fn is_patch_blob_evidence_uri(uri: &str) -> bool {
    let parsed = parse_uri(uri);
    let rest = parsed.path.strip_prefix(ROOM);
    parsed.uri_type == UriType::Memory && rest.is_some_and(|rest| rest.starts_with('/'))
}
