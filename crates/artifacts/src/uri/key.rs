//! Artifact keys: relative paths.

use std::fmt;

use serde::Serialize;

use super::{ParsedUri, UriType, parse_uri};

/// A path without `.`, `..`, doubled, leading and trailing slashes, with `\` as `/`. A `..` at the
/// root stays at the root, as everywhere under a root: no result begins with `..`.
pub fn normalize_uri(path: &str) -> String {
    walk(path).0
}

/// Whether a path would leave its root on the way.
pub fn escapes(path: &str) -> bool {
    walk(path).1
}

fn walk(path: &str) -> (String, bool) {
    let mut parts: Vec<&str> = Vec::new();
    let mut is_leaving = false;
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => is_leaving |= parts.pop().is_none(),
            part => parts.push(part),
        }
    }
    (parts.join("/"), is_leaving)
}

/// Why something is not an artifact key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// It locates bytes, or is evidence, or has another scheme.
    NotArtifact(String),
    /// It leads out of the artifacts' root.
    Escapes(String),
    /// Nothing is left of it, or it has control characters.
    Malformed(String),
    /// A part of it is not as it must be.
    Part(&'static str, String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotArtifact(uri) => write!(f, "not an artifact key: {uri:?}"),
            Self::Escapes(uri) => write!(f, "leads out of the artifacts' root: {uri:?}"),
            Self::Malformed(uri) => write!(f, "not a path: {uri:?}"),
            Self::Part(part, value) => write!(f, "{part} cannot be {value:?}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// The key of an artifact, normal and inside of the root.
pub fn normalize_to_artifact_key(uri: &str) -> Result<String, KeyError> {
    let parsed = parse_uri(uri);
    if parsed.is_artifact_key() {
        inside(&parsed.path)
    } else {
        Err(KeyError::NotArtifact(parsed.raw))
    }
}

fn inside(path: &str) -> Result<String, KeyError> {
    let (key, is_leaving) = walk(path);
    if is_leaving {
        return Err(KeyError::Escapes(path.to_owned()));
    }
    if key.is_empty() || key.chars().any(char::is_control) {
        return Err(KeyError::Malformed(path.to_owned()));
    }
    Ok(key)
}

/// Where artifacts are kept: what begins so has the key that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixMapping {
    /// `file`, `s3` and so on.
    pub scheme: String,
    /// How the path begins; for objects with the bucket.
    pub prefix: String,
    /// Its replacement.
    pub replacement: String,
}

/// The outcome of converting a URI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conversion {
    /// Whether there is a key.
    pub success: bool,
    /// What was given.
    pub original_uri: String,
    /// The key.
    pub converted_uri: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// What was given, by its scheme.
    pub uri_type: UriType,
}

/// Finds the artifact key of a URI; the first mapping that fits decides.
pub fn try_convert_to_artifact_key(uri: &str, mappings: &[PrefixMapping]) -> Conversion {
    let parsed = parse_uri(uri);
    let key = if parsed.is_artifact_key() {
        inside(&parsed.path)
    } else {
        mapped(&parsed, mappings)
    };
    Conversion {
        success: key.is_ok(),
        original_uri: uri.to_owned(),
        error: key.as_ref().err().map(ToString::to_string),
        converted_uri: key.ok(),
        uri_type: parsed.uri_type,
    }
}

fn mapped(parsed: &ParsedUri, mappings: &[PrefixMapping]) -> Result<String, KeyError> {
    let not_ours = || KeyError::NotArtifact(parsed.raw.clone());
    let scheme = parsed.scheme.as_deref().filter(|_| parsed.is_physical());
    let scheme = scheme.ok_or_else(not_ours)?;
    let mut fitting = mappings.iter().filter(|mapping| mapping.scheme == scheme);
    let path = fitting.find_map(|mapping| {
        let rest = parsed.path.strip_prefix(mapping.prefix.as_str())?;
        Some((mapping, rest))
    });
    let (mapping, rest) = path.ok_or_else(not_ours)?;
    // What follows the prefix must stay under it, or the prefix would be no boundary.
    if escapes(rest) {
        return Err(KeyError::Escapes(parsed.raw.clone()));
    }
    inside(&format!("{}{rest}", mapping.replacement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_normal_and_never_lead_out() {
        let table = [
            (r"scm\repo-001\git\file.txt", "scm/repo-001/git/file.txt"),
            (
                "./scm/repo-001/../repo-002/file.txt",
                "scm/repo-002/file.txt",
            ),
            ("/absolute/path/file.txt", "absolute/path/file.txt"),
            ("path/to/dir/", "path/to/dir"),
            ("scm//repo///file.txt", "scm/repo/file.txt"),
            ("", ""),
            (".", ""),
            ("./", ""),
            ("/", ""),
            ("a/b/../..", ""),
            ("//x/y", "x/y"),
            ("/../x", "x"),
            // The reference keeps these as `../x`, `../x` and `..`.
            ("../x", "x"),
            ("a/../../x", "x"),
            ("..", ""),
            (r"a\..\..\x", "x"),
        ];
        for (path, normal) in table {
            assert_eq!(normalize_uri(path), normal, "{path:?}");
        }
        for (path, is_leaving) in [("../x", true), ("a/../../a/x", true), ("a/../x", false)] {
            assert_eq!(escapes(path), is_leaving, "{path:?}");
        }
    }

    #[test]
    fn keys_are_inside_of_the_root() {
        let key = |uri: &str| normalize_to_artifact_key(uri);
        assert_eq!(key("artifact://scm/1/./a.diff").unwrap(), "scm/1/a.diff");
        assert_eq!(key("scm//1/a.diff").unwrap(), "scm/1/a.diff");
        for uri in [
            "file:///x",
            "s3://b/k",
            "https://h/p",
            "memory://docs/x",
            "git://x/y",
        ] {
            assert!(matches!(key(uri), Err(KeyError::NotArtifact(_))), "{uri}");
        }
        for uri in ["../x", "artifact://a/../../x", r"..\x"] {
            assert!(matches!(key(uri), Err(KeyError::Escapes(_))), "{uri}");
        }
        for uri in ["", "/", "a/..", "a\0b"] {
            assert!(matches!(key(uri), Err(KeyError::Malformed(_))), "{uri:?}");
        }
    }

    #[test]
    fn what_is_kept_under_a_known_prefix_has_a_key() {
        let mapping = |scheme: &str, prefix: &str| PrefixMapping {
            scheme: scheme.to_owned(),
            prefix: prefix.to_owned(),
            replacement: String::new(),
        };
        let mappings = [
            mapping("file", "/mnt/artifacts/"),
            mapping("s3", "bucket/engram/"),
            // Not for what the first fits: that one decides.
            mapping("file", "/mnt/"),
            PrefixMapping {
                replacement: "kept/".to_owned(),
                ..mapping("file", "/srv/")
            },
        ];
        let convert = |uri| try_convert_to_artifact_key(uri, &mappings);
        let table = [
            ("file:///mnt/artifacts/scm/1/r100.diff", "scm/1/r100.diff"),
            ("s3://bucket/engram/scm/1.diff", "scm/1.diff"),
            ("scm//1/x.diff", "scm/1/x.diff"),
            ("artifact://scm/1/x.diff", "scm/1/x.diff"),
            ("file:///mnt/other", "other"),
            ("file:///srv/a", "kept/a"),
        ];
        for (uri, key) in table {
            let conversion = convert(uri);
            assert!(conversion.success && conversion.error.is_none());
            assert_eq!(conversion.converted_uri.as_deref(), Some(key));
            assert_eq!(conversion.original_uri, uri);
        }
        let strangers = [
            "s3://unknown-bucket/key",
            "https://h/p",
            "memory://attachments/1/x",
            "custom://x",
            "file:///mnt/artifacts/../secret",
            "file:///mnt/artifacts/a/../../secret",
            "file:///srv/../secret",
            "../x",
        ];
        for uri in strangers {
            let conversion = convert(uri);
            assert!(
                !conversion.success && conversion.converted_uri.is_none(),
                "{uri}"
            );
            assert!(conversion.error.is_some());
        }
        assert!(!try_convert_to_artifact_key("s3://b/k", &[]).success);
        assert_eq!(convert("s3://b/k").uri_type, UriType::S3);
    }
}
