//! Where changes to repositories are kept among the artifacts.

use super::{
    KeyError,
    text::{decimal, is_sha256},
};

const TYPES: [&str; 3] = ["svn", "git", "gitlab"];
const EXTENSIONS: [&str; 3] = ["diff", "diffstat", "ministat"];
/// Shorter abbreviations of a commit are ambiguous.
const COMMIT_DIGITS_MIN: usize = 7;

/// A change among the artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScmArtifact {
    /// None in the old layout.
    pub project_key: Option<String>,
    /// Of which repository.
    pub repo_id: i64,
    /// `svn`, `git` or `gitlab`.
    pub source_type: String,
    /// `r100` or a commit; without the `r` in the old layout.
    pub rev_or_sha: String,
    /// None in the old layout.
    pub sha256: Option<String>,
    /// `diff`, `diffstat` or `ministat`.
    pub ext: String,
}

impl ScmArtifact {
    /// Whether it is in the old layout, which is only read.
    pub fn is_legacy(&self) -> bool {
        self.project_key.is_none()
    }

    /// Where the old layout has it: to look when it is not where it belongs.
    pub fn legacy_key(&self) -> Option<String> {
        let (repo_id, ext) = (self.repo_id, &self.ext);
        let revision = self.rev_or_sha.trim_start_matches('r');
        match self.source_type.as_str() {
            "svn" => Some(format!("scm/{repo_id}/svn/r{revision}.{ext}")),
            "git" => Some(format!(
                "scm/{repo_id}/git/commits/{}.{ext}",
                self.rev_or_sha
            )),
            _ => None,
        }
    }
}

/// The key of a change among the artifacts.
pub fn build_scm_artifact_path(
    project_key: &str,
    repo_id: i64,
    source_type: &str,
    rev_or_sha: &str,
    sha256: &str,
    ext: &str,
) -> Result<String, KeyError> {
    let source_type = source_type.trim().to_ascii_lowercase();
    let sha256 = sha256.trim().to_ascii_lowercase();
    let is_revision = match source_type.as_str() {
        "svn" => rev_or_sha.strip_prefix('r').is_some_and(is_digits),
        _ => rev_or_sha.len() >= COMMIT_DIGITS_MIN && is_hex(rev_or_sha),
    };
    let parts = [
        ("project_key", project_key, is_segment(project_key)),
        (
            "source_type",
            &source_type,
            TYPES.contains(&source_type.as_str()),
        ),
        ("rev_or_sha", rev_or_sha, is_revision),
        ("sha256", &sha256, is_sha256(&sha256)),
        ("ext", ext, EXTENSIONS.contains(&ext)),
    ];
    if let Some((part, value, _)) = parts.into_iter().find(|(.., is_right)| !is_right) {
        return Err(KeyError::Part(part, value.to_owned()));
    }
    if repo_id < 0 {
        return Err(KeyError::Part("repo_id", repo_id.to_string()));
    }
    Ok(format!(
        "scm/{project_key}/{repo_id}/{source_type}/{rev_or_sha}/{sha256}.{ext}"
    ))
}

/// Reads the key of a change, in either layout.
pub fn parse_scm_artifact_path(path: &str) -> Option<ScmArtifact> {
    let path = path.trim_start_matches('/');
    let segments: Vec<&str> = path.split('/').collect();
    if !segments.iter().all(|segment| is_segment(segment)) {
        return None;
    }
    match segments[..] {
        ["scm", repo_id, "svn", file] => {
            let (revision, ext) = split_extension(file.strip_prefix('r')?)?;
            is_digits(revision).then_some(())?;
            legacy(repo_id, "svn", revision, ext)
        }
        ["scm", repo_id, "git", "commits", file] => {
            let (commit, ext) = split_extension(file)?;
            legacy(repo_id, "git", commit, ext)
        }
        ["scm", project_key, repo_id, source_type, rev_or_sha, file] => {
            // A name without any dot is a hash alone, of a diff.
            let (sha256, ext) = if file.contains('.') {
                split_extension(file)?
            } else {
                (file, "diff")
            };
            TYPES.contains(&source_type).then_some(())?;
            Some(ScmArtifact {
                project_key: Some(project_key.to_owned()),
                repo_id: decimal(repo_id)?,
                source_type: source_type.to_owned(),
                rev_or_sha: rev_or_sha.to_owned(),
                sha256: Some(sha256.to_owned()),
                ext: ext.to_owned(),
            })
        }
        _ => None,
    }
}

fn legacy(repo_id: &str, source_type: &str, revision: &str, ext: &str) -> Option<ScmArtifact> {
    Some(ScmArtifact {
        project_key: None,
        repo_id: decimal(repo_id)?,
        source_type: source_type.to_owned(),
        rev_or_sha: revision.to_owned(),
        sha256: None,
        ext: ext.to_owned(),
    })
}

fn split_extension(file: &str) -> Option<(&str, &str)> {
    let (name, ext) = file.rsplit_once('.')?;
    (!name.is_empty() && EXTENSIONS.contains(&ext)).then_some((name, ext))
}

/// Whether it is one step of a path and leads nowhere else.
fn is_segment(text: &str) -> bool {
    let is_odd = |c: char| c == '/' || c == '\\' || c.is_control();
    !text.trim().is_empty() && ![".", ".."].contains(&text) && !text.chars().any(is_odd)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn keys_are_built_of_parts_that_fit() {
        let upper = "A".repeat(64);
        let lower = "a".repeat(64);
        let build = |project: &str, kind: &str, revision: &str, ext: &str| {
            build_scm_artifact_path(project, 1, kind, revision, &upper, ext)
        };
        let svn = build("p", "svn", "r100", "diff").unwrap();
        assert_eq!(svn, format!("scm/p/1/svn/r100/{lower}.diff"));
        let git = build("p", "GIT", "abc1234", "diffstat").unwrap();
        assert_eq!(git, format!("scm/p/1/git/abc1234/{lower}.diffstat"));
        let refused = [
            ("", "svn", "r100", "diff", "project_key"),
            ("..", "svn", "r100", "diff", "project_key"),
            ("a/b", "svn", "r100", "diff", "project_key"),
            ("p", "hg", "abc1234", "diff", "source_type"),
            ("p", "svn", "100", "diff", "rev_or_sha"),
            ("p", "git", "abc12", "diff", "rev_or_sha"),
            ("p", "git", "xyz1234", "diff", "rev_or_sha"),
            ("p", "git", "abc1234", "txt", "ext"),
        ];
        for (project, kind, revision, ext, part) in refused {
            let error = build(project, kind, revision, ext).unwrap_err();
            assert!(
                matches!(error, KeyError::Part(named, _) if named == part),
                "{error:?}"
            );
        }
        assert!(build_scm_artifact_path("p", -1, "svn", "r1", &upper, "diff").is_err());
        assert!(build_scm_artifact_path("p", 1, "svn", "r1", "short", "diff").is_err());
    }

    type Parts<'a> = (
        Option<&'a str>,
        i64,
        &'a str,
        &'a str,
        Option<&'a str>,
        &'a str,
    );

    #[test]
    fn keys_are_read_in_both_layouts() {
        let strong = format!("scm/p/3/gitlab/abc1234/{S}.diffstat");
        let table: [(&str, Parts<'_>); 7] = [
            (
                "scm/proj_a/1/svn/r100/abc123.diff",
                (Some("proj_a"), 1, "svn", "r100", Some("abc123"), "diff"),
            ),
            (
                &strong,
                (Some("p"), 3, "gitlab", "abc1234", Some(S), "diffstat"),
            ),
            ("scm/1/svn/r100.diff", (None, 1, "svn", "100", None, "diff")),
            (
                "/scm/1/svn/r100.diff",
                (None, 1, "svn", "100", None, "diff"),
            ),
            (
                "scm/1/git/commits/abc123.diff",
                (None, 1, "git", "abc123", None, "diff"),
            ),
            (
                "scm/p/1/git/sha/noext",
                (Some("p"), 1, "git", "sha", Some("noext"), "diff"),
            ),
            (
                "scm/p/1/svn/r1/a.b.diff",
                (Some("p"), 1, "svn", "r1", Some("a.b"), "diff"),
            ),
        ];
        for (path, (project_key, repo_id, source_type, rev_or_sha, sha256, ext)) in table {
            let artifact = parse_scm_artifact_path(path).expect(path);
            let expected = ScmArtifact {
                project_key: project_key.map(str::to_owned),
                repo_id,
                source_type: source_type.to_owned(),
                rev_or_sha: rev_or_sha.to_owned(),
                sha256: sha256.map(str::to_owned),
                ext: ext.to_owned(),
            };
            assert_eq!(artifact.is_legacy(), project_key.is_none());
            assert_eq!(artifact, expected);
        }
        let none = [
            "scm/p/1/hg/x/y.diff",
            "scm/1/svn/100.diff",
            "scm/1/svn/r100",
            "scm/1/git/commits/abc",
            "scm/a/b",
            "foo/1/svn/r1.diff",
            "artifact://scm/1/svn/r100.diff",
            "scm/../1/svn/r1/a.diff",
        ];
        for path in none {
            assert_eq!(parse_scm_artifact_path(path), None, "{path}");
        }
    }

    #[test]
    fn the_old_layout_is_where_one_looks_next() {
        let legacy = |path: &str| parse_scm_artifact_path(path).unwrap().legacy_key();
        assert_eq!(
            legacy("scm/p/1/svn/r100/a.diff").unwrap(),
            "scm/1/svn/r100.diff"
        );
        let git = legacy("scm/p/1/git/abc1234/a.diffstat").unwrap();
        assert_eq!(git, "scm/1/git/commits/abc1234.diffstat");
        assert_eq!(legacy("scm/p/1/gitlab/abc1234/a.diff"), None);
    }
}
