//! The one grammar of URIs, and the one parser (nothing else parses URIs).
//!
//! Three families:
//! - artifact keys, `scm/p/1/git/abc1234/<sha256>.diff` or `artifact://…`: relative paths under the
//!   artifacts' root, which nothing in them can leave;
//! - physical URIs: `file`, `s3`, `gs`, `http`, `https`, `ftp`;
//! - evidence URIs: `memory://patch_blobs/<source_type>/<source_id>/<sha256>` and
//!   `memory://attachments/<attachment_id>/<sha256>`.
//!
//! Numbers in URIs are decimal, without sign, space, underscore or leading zero. A `/` inside of a
//! source's id is written `%2F`.

mod artifact;
mod attachment;
mod key;
mod patch;
mod reference;
mod source;
mod text;

pub use self::text::is_sha256;
pub use self::{
    artifact::{ScmArtifact, build_scm_artifact_path, parse_scm_artifact_path},
    attachment::{
        AttachmentUri, AttachmentUriError, build_attachment_evidence_uri,
        parse_attachment_evidence_uri, parse_attachment_evidence_uri_strict,
    },
    key::{
        Conversion, KeyError, PrefixMapping, escapes, normalize_to_artifact_key, normalize_uri,
        try_convert_to_artifact_key,
    },
    patch::{
        PatchUri, build_evidence_uri, build_evidence_uri_of, is_patch_blob_evidence_uri,
        parse_evidence_uri,
    },
    reference::{
        AttachmentRef, PatchRef, RefError, build_evidence_refs_json, check_evidence_refs_json,
        validate_evidence_ref,
    },
    source::{SourceId, parse_source_id},
};

pub use consign_redact::{
    mask_credentials, mask_credentials_in, mask_credentials_in_fields, masked_json,
    may_hold_credentials,
};
use serde::Serialize;

/// What a URI's scheme makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UriType {
    /// A file of this machine.
    File,
    /// Something on the web, with `https` as well.
    Http,
    /// An object.
    S3,
    /// An object.
    Gs,
    /// A file elsewhere.
    Ftp,
    /// Evidence.
    Memory,
    /// A path under the artifacts' root.
    Artifact,
    /// Another scheme: `git`, `mr`, `commit`.
    Unknown,
}

/// The families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UriClass {
    /// `memory://…`
    EvidenceUri,
    /// `file`, `s3`, `gs`, `http`, `https`, `ftp`.
    PhysicalUri,
    /// Everything else, other schemes included.
    ArtifactKey,
}

/// A parsed URI. Any text can be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParsedUri {
    /// As it was given, without blanks around it.
    pub raw: String,
    /// In lower case.
    pub scheme: Option<String>,
    /// Without query and fragment, which artifact keys do not have: `?` and `#` are part of a file's
    /// name. Objects, artifacts and evidence have their first part in it.
    pub path: String,
    /// What the scheme makes of it.
    pub uri_type: UriType,
    /// The part after `//`.
    pub netloc: Option<String>,
    /// Whether there was a query or a fragment.
    #[serde(skip)]
    pub has_query: bool,
}

impl ParsedUri {
    /// Whether it is elsewhere.
    pub fn is_remote(&self) -> bool {
        !self.is_local()
    }

    /// Whether it can be looked up here.
    pub fn is_local(&self) -> bool {
        use UriType::{Artifact, File, Memory};
        matches!(self.uri_type, File | Memory | Artifact)
    }

    /// Whether it is a path under the artifacts' root.
    pub fn is_artifact_key(&self) -> bool {
        self.uri_type == UriType::Artifact
    }

    /// Whether it locates bytes.
    pub fn is_physical(&self) -> bool {
        use UriType::{File, Ftp, Gs, Http, S3};
        matches!(self.uri_type, File | Http | S3 | Gs | Ftp)
    }

    /// Its family.
    pub fn class(&self) -> UriClass {
        match self.uri_type {
            UriType::Memory => UriClass::EvidenceUri,
            _ if self.is_physical() => UriClass::PhysicalUri,
            _ => UriClass::ArtifactKey,
        }
    }
}

/// Parses a URI.
pub fn parse_uri(uri: &str) -> ParsedUri {
    let raw = uri.trim();
    let (scheme, rest) = split_scheme(raw);
    let scheme = scheme.map(str::to_ascii_lowercase);
    let uri_type = uri_type(scheme.as_deref());
    let begins_query = |c: char| uri_type != UriType::Artifact && matches!(c, '?' | '#');
    let find = |text: &str, is_end: &dyn Fn(char) -> bool| text.find(is_end).unwrap_or(text.len());
    let hierarchical = scheme.as_ref().and_then(|_| rest.strip_prefix("//"));
    let (netloc, rest) = match hierarchical {
        Some(rest) => rest.split_at(find(rest, &|c| c == '/' || begins_query(c))),
        None => ("", rest),
    };
    let end = find(rest, &begins_query);
    let path = &rest[..end];
    ParsedUri {
        raw: raw.to_owned(),
        path: match uri_type {
            UriType::File => without_slash_before_drive(path).to_owned(),
            UriType::S3 | UriType::Gs => format!("{netloc}{path}"),
            UriType::Memory | UriType::Artifact if scheme.is_some() => {
                let joined = format!("{netloc}{path}");
                joined.trim_start_matches('/').to_owned()
            }
            _ => path.to_owned(),
        },
        uri_type,
        netloc: (!netloc.is_empty()).then(|| netloc.to_owned()),
        has_query: end < rest.len(),
        scheme,
    }
}

/// Where bytes are: of an object its bucket and key, of everything else its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalUri {
    /// In lower case.
    pub scheme: String,
    /// Of `s3` and `gs`.
    pub bucket: Option<String>,
    /// The object's key, or the path.
    pub key: String,
}

/// Parses a physical URI; none if it is another.
pub fn parse_physical_uri(uri: &str) -> Option<PhysicalUri> {
    let parsed = parse_uri(uri);
    if !parsed.is_physical() {
        return None;
    }
    let scheme = parsed.scheme?;
    Some(match parsed.uri_type {
        UriType::S3 | UriType::Gs => {
            let (bucket, key) = parsed.path.split_once('/').unwrap_or((&parsed.path, ""));
            PhysicalUri {
                scheme,
                bucket: Some(bucket.to_owned()),
                key: key.to_owned(),
            }
        }
        _ => PhysicalUri {
            scheme,
            bucket: None,
            key: parsed.path,
        },
    })
}

/// The family of a URI.
pub fn classify_uri_type(uri: &str) -> UriClass {
    parse_uri(uri).class()
}

fn split_scheme(uri: &str) -> (Option<&str>, &str) {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return (None, uri);
    };
    let mut bytes = scheme.bytes();
    let is_scheme = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte));
    if is_scheme {
        (Some(scheme), rest)
    } else {
        (None, uri)
    }
}

fn uri_type(scheme: Option<&str>) -> UriType {
    match scheme {
        None | Some("artifact") => UriType::Artifact,
        Some("file") => UriType::File,
        Some("http" | "https") => UriType::Http,
        Some("s3") => UriType::S3,
        Some("gs") => UriType::Gs,
        Some("ftp") => UriType::Ftp,
        Some("memory") => UriType::Memory,
        Some(_) => UriType::Unknown,
    }
}

/// `/C:/x` is `C:/x`.
fn without_slash_before_drive(path: &str) -> &str {
    match path.as_bytes() {
        [b'/', drive, b':', ..] if drive.is_ascii_alphabetic() => &path[1..],
        _ => path,
    }
}

#[cfg(test)]
mod foreign;
#[cfg(test)]
mod tests;
