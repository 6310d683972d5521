//! Allowed addresses and folders: a repository may be added by a database role, but it is read with
//! the rights and from the network of this process.

use std::{
    net::IpAddr,
    path::{Component, Path, PathBuf},
};

use consign_outbound::{Exceptions, Refusal};
use reqwest::Url;

use crate::{ScmError, git::git_dir};

/// Which addresses and folders repositories are read from.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Allowed addresses besides public ones.
    pub allowed: Exceptions,
    /// Folders of local repositories; `None`: every readable folder.
    pub local_roots: Option<Vec<PathBuf>>,
}

impl Reach {
    /// Every address and folder: where only the operator adds repositories.
    pub fn anywhere() -> Self {
        Self {
            allowed: Exceptions::everything(),
            local_roots: None,
        }
    }

    /// Rejects a local repository outside of the roots. Symbolic links are resolved.
    pub(crate) fn check_path(&self, name: &str, path: &Path) -> Result<(), ScmError> {
        let Some(roots) = &self.local_roots else {
            return Ok(());
        };
        let is_plain = !path.components().any(|part| part == Component::ParentDir);
        let path = resolved(path).filter(|_| is_plain);
        let is_below = |path: PathBuf| {
            let mut roots = roots.iter().filter_map(|root| root.canonicalize().ok());
            roots.any(|root| path.starts_with(root))
        };
        if path.is_some_and(is_below) {
            Ok(())
        } else {
            // The same for a path that does not exist: the error must not reveal which paths exist.
            Err(refused(name, "is not in a folder of scm.local_roots"))
        }
    }

    /// Rejects a local repository whose objects are elsewhere, where no root is checked: by a
    /// `.git` file, a worktree, alternates or a link.
    pub(crate) fn check_repository(&self, name: &str, git_dir: &Path) -> Result<(), ScmError> {
        self.check_path(name, git_dir)?;
        self.check_path(name, &git_dir.join("objects"))?;
        let leads_out = ["commondir", "objects/info/alternates"];
        let leads_out = leads_out.iter().any(|file| git_dir.join(file).exists());
        if self.local_roots.is_some() && (git_dir.is_file() || leads_out) {
            let why = "keeps its objects elsewhere (gitfile, worktree or alternates), which \
                       scm.local_roots does not allow: add the repository that contains them instead";
            return Err(refused(name, why));
        }
        Ok(())
    }

    /// The same for a `file:` URL.
    pub(crate) fn check_file_url(&self, name: &str) -> Result<(), ScmError> {
        if self.local_roots.is_none() {
            return Ok(());
        }
        // Git leaves dots to the kernel, which follows links before it goes up.
        let has_dots = name.contains("..") || name.to_ascii_lowercase().contains("%2e");
        let url = Url::parse(name).ok().filter(|_| !has_dots);
        let path = url.and_then(|url| url.to_file_path().ok());
        match path {
            Some(path) => self.check_repository(name, &git_dir(&path)),
            None => Err(refused(name, "has no path; the form is file:///path")),
        }
    }

    /// Rejects a host that is not in the settings, for programs that resolve names themselves and
    /// follow redirects.
    pub(crate) fn check_named(&self, name: &str, host: &str) -> Result<(), ScmError> {
        if self.allowed.names(host) {
            Ok(())
        } else {
            Err(refused(
                name,
                "is read by a program that resolves the host itself: add the host to scm.allow",
            ))
        }
    }

    /// Rejects a URL whose host is an excluded address.
    pub(crate) fn check_literal(&self, name: &str, url: &Url) -> Result<(), ScmError> {
        let checked = self.allowed.check_literal(url);
        checked.map_err(|why| refused(name, &why))
    }

    /// The allowed addresses of `host`, resolved now.
    pub(crate) async fn addresses(&self, name: &str, host: &str) -> Result<Vec<IpAddr>, ScmError> {
        let found = self.allowed.clone().addresses(host).await;
        found.map_err(|refusal| match refusal {
            Refusal::Blocked { .. } => refused(name, &refusal.to_string()),
            Refusal::NotFound { .. } => ScmError::Network {
                source_name: name.to_owned(),
                tries: 1,
                detail: refusal.to_string(),
            },
        })
    }
}

/// The resolved path; of a missing one, where it would be.
fn resolved(path: &Path) -> Option<PathBuf> {
    let present = path
        .ancestors()
        .find(|above| above.symlink_metadata().is_ok())?;
    let missing = path.strip_prefix(present).ok()?;
    Some(present.canonicalize().ok()?.join(missing))
}

fn refused(name: &str, why: &str) -> ScmError {
    ScmError::NotAllowed {
        source_name: name.to_owned(),
        detail: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_repository_lies_below_a_root_wherever_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["in/repo", "in/a b", "out/repo", "in-between"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("out/repo"), at("in/link")).unwrap();
        std::os::unix::fs::symlink(at("in"), at("root")).unwrap();
        let reach = Reach {
            local_roots: Some(vec![at("root")]),
            ..Reach::anywhere()
        };
        for (name, is_allowed) in [
            ("in/repo", true),
            ("root/repo", true),
            ("in", true),
            ("out/repo", false),
            ("in/link", false),
            ("in-between", false),
            ("in/../out/repo", false),
            ("in/nothing/there", true),
            ("out/nothing", false),
            ("in/link/nothing", false),
        ] {
            let path = at(name);
            let checked = reach.check_path(name, &path);
            assert_eq!(checked.is_ok(), is_allowed, "{name}: {checked:?}");
            let url = format!("file://{}", path.display());
            assert_eq!(reach.check_file_url(&url).is_ok(), is_allowed, "{url}");
        }
        let spelt = format!("file://{}/in/a%20b", folder.path().display());
        reach.check_file_url(&spelt).unwrap();
        for url in [
            "file://host/etc",
            "file:///in/%2e%2e/out",
            "file:relative",
            "nothing",
        ] {
            assert!(reach.check_file_url(url).is_err(), "{url}");
        }
        Reach::anywhere().check_path("x", &at("out/repo")).unwrap();
    }

    #[test]
    fn a_repository_whose_objects_are_elsewhere_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let make = |name: &str| std::fs::create_dir_all(at(name)).unwrap();
        for name in ["out/.git/objects", "in/plain/.git/objects", "in/gitfile"] {
            make(name);
        }
        std::fs::write(at("in/gitfile/.git"), "gitdir: ../../out/.git").unwrap();
        make("in/worktree/.git/objects");
        std::fs::write(at("in/worktree/.git/commondir"), "../../../out/.git").unwrap();
        make("in/alternates/.git/objects/info");
        std::fs::write(at("in/alternates/.git/objects/info/alternates"), "/x").unwrap();
        make("in/linked/.git");
        std::os::unix::fs::symlink(at("out/.git/objects"), at("in/linked/.git/objects")).unwrap();
        make("in/shared");
        std::os::unix::fs::symlink(at("in/shared"), at("in/link")).unwrap();
        let reach = Reach {
            local_roots: Some(vec![at("in")]),
            ..Reach::anywhere()
        };
        for (name, is_allowed) in [
            ("in/plain", true),
            ("in/gitfile", false),
            ("in/worktree", false),
            ("in/alternates", false),
            ("in/linked", false),
        ] {
            let checked = reach.check_repository(name, &git_dir(&at(name)));
            assert_eq!(checked.is_ok(), is_allowed, "{name}: {checked:?}");
            let url = format!("file://{}", at(name).display());
            assert_eq!(reach.check_file_url(&url).is_ok(), is_allowed, "{url}");
        }
        let dots = format!("file://{}/in/link/%2E%2e/plain", folder.path().display());
        assert!(reach.check_file_url(&dots).is_err());
    }
}
