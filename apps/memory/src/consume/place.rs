//! URIs of changes as evidence.

use consign_scm::{Change, Provider, Repo};

/// `git://<host>/<path>/commit/<sha>` or `svn://<host>/<path>@<revision>`; without a host for local
/// repositories.
pub(super) fn evidence_uri(repo: &Repo, change: &Change) -> String {
    let place = place(&repo.url);
    let rev = &change.rev_or_sha;
    match repo.provider {
        Provider::Svn => format!("svn://{place}@{rev}"),
        Provider::Git | Provider::Gitlab => {
            let place = place.strip_suffix(".git").unwrap_or(&place);
            format!("git://{place}/commit/{rev}")
        }
    }
}

/// The last segment of a repository's path: its default name.
pub(super) fn name(repo: &Repo) -> String {
    let place = place(&repo.url);
    let last = place.rsplit('/').next().unwrap_or_default();
    let name = last.strip_suffix(".git").unwrap_or(last);
    if name.is_empty() {
        format!("repo-{}", repo.repo_id)
    } else {
        name.to_owned()
    }
}

/// Host and path of any URL. User names are dropped: they may be a part of a credential.
fn place(url: &str) -> String {
    let without_user = |place: &str| {
        let host_ends = place.find('/').unwrap_or(place.len());
        let user_ends = place[..host_ends].rfind('@').map_or(0, |at| at + 1);
        place[user_ends..].to_owned()
    };
    let place = match url.split_once("://") {
        Some((_, place)) => without_user(place),
        // `user@host:path` of ssh; a path has a slash before any colon.
        None => match url.split_once(':') {
            Some((host, path)) if !host.contains('/') => {
                let path = path.trim_start_matches('/');
                without_user(&format!("{host}/{path}"))
            }
            _ => url.to_owned(),
        },
    };
    let place = place.trim_end_matches('/');
    place.chars().map(plain).collect()
}

/// A URI has no line ends and blanks.
fn plain(c: char) -> String {
    let mut bytes = [0; 4];
    if c.is_control() || c.is_whitespace() {
        c.encode_utf8(&mut bytes)
            .bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect()
    } else {
        c.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consume::card::tests::{change, repo};

    #[test]
    fn a_change_is_where_its_repository_is() {
        let table = [
            (
                Provider::Git,
                "https://h.example/g/p.git",
                "git://h.example/g/p/commit/ab12",
            ),
            (
                Provider::Git,
                "https://user:pw@h.example:8443/p.git/",
                "git://h.example:8443/p/commit/ab12",
            ),
            (
                Provider::Git,
                "git@h.example:g/p.git",
                "git://h.example/g/p/commit/ab12",
            ),
            (
                Provider::Git,
                "ssh://git@h.example/g/p",
                "git://h.example/g/p/commit/ab12",
            ),
            (
                Provider::Git,
                "/srv/a b/p.git",
                "git:///srv/a%20b/p/commit/ab12",
            ),
            (Provider::Git, "file:///srv/p", "git:///srv/p/commit/ab12"),
            (
                Provider::Gitlab,
                "https://gitlab.example/g/p",
                "git://gitlab.example/g/p/commit/ab12",
            ),
            (
                Provider::Svn,
                "svn://h.example/repo/trunk",
                "svn://h.example/repo/trunk@ab12",
            ),
            (Provider::Svn, "file:///srv/repo", "svn:///srv/repo@ab12"),
            (
                Provider::Git,
                "https://h.example/p\nx",
                "git://h.example/p%0Ax/commit/ab12",
            ),
        ];
        for (provider, url, expected) in table {
            let repo = repo(provider, url);
            assert_eq!(evidence_uri(&repo, &change("x")), expected, "{url}");
        }
    }

    #[test]
    fn a_repository_has_a_name() {
        for (url, expected) in [
            ("https://h.example/g/p.git", "p"),
            ("git@h.example:p.git", "p"),
            ("/srv/repos/p/", "p"),
            ("/", "repo-1"),
        ] {
            assert_eq!(name(&repo(Provider::Git, url)), expected, "{url}");
        }
    }
}
