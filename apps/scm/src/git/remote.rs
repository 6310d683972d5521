//! Remote repositories: URLs and failures.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::command::{Failure, Git};
use crate::{ScmError, SourceOptions};

/// User name for tokens on Git servers.
const TOKEN_USER: &str = "oauth2";

/// Location of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemoteLocation {
    /// A local folder, read directly.
    Here,
    /// Remote, read through a mirror.
    Elsewhere,
}

/// Parses a URL or path; rejects transports that run programs.
pub(super) fn place(url: &str) -> Result<RemoteLocation, ScmError> {
    let invalid = |why: &str| Err(ScmError::Invalid(format!("{url:?} {why}")));
    if url.is_empty() || url.starts_with('-') || url.contains(char::is_control) {
        return invalid("is neither a URL nor a path");
    }
    let scheme_ends = url.find(':').filter(|end| !url[..*end].contains('/'));
    let Some(scheme_ends) = scheme_ends else {
        return Ok(RemoteLocation::Here);
    };
    let (scheme, rest) = url.split_at(scheme_ends);
    // `ext::command` and its like run programs.
    if rest.starts_with("::") {
        return invalid("has a transport that is not allowed");
    }
    let Some(rest) = rest.strip_prefix("://") else {
        // `user@host:path`, which is ssh.
        if url
            .split_once('@')
            .is_some_and(|(user, _)| user.contains(':'))
        {
            return Err(ScmError::Invalid("the URL contains a password".to_owned()));
        }
        return Ok(RemoteLocation::Elsewhere);
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" if host.contains('@') => {
            // The name is not repeated either: it may be a token.
            let why = "the URL contains credentials: set them in scm.tokens or the environment";
            Err(ScmError::Invalid(why.to_owned()))
        }
        "ssh"
            if host
                .split('@')
                .next()
                .is_some_and(|user| user.contains(':') && host.contains('@')) =>
        {
            Err(ScmError::Invalid("the URL contains a password".to_owned()))
        }
        "http" | "https" | "ssh" if host.is_empty() => invalid("has no host"),
        "http" | "https" | "ssh" | "file" => Ok(RemoteLocation::Elsewhere),
        _ => invalid("has a transport that is not allowed"),
    }
}

/// Validates a branch name, which must not be readable as an option.
pub(super) fn check_branch(branch: &str) -> Result<(), ScmError> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || ":^~?*[\\".contains(c);
    let is_wrong = branch.is_empty()
        || branch.starts_with(['-', '/'])
        || branch.ends_with(['/', '.'])
        || branch.contains("..")
        || branch.contains("@{")
        || branch.contains(is_odd);
    if is_wrong {
        Err(ScmError::Invalid(format!(
            "{branch:?} is not a branch name"
        )))
    } else {
        Ok(())
    }
}

/// Configures the credential and the certificate authority for a server.
pub(super) fn authenticate(git: &mut Git, url: &str, options: &SourceOptions) {
    if let Some(ca_file) = &options.ca_file {
        git.set("http.sslCAInfo", ca_file.to_string_lossy());
    }
    let is_http = url
        .get(..4)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    let Some(credential) = options.credential.as_ref().filter(|_| is_http) else {
        return;
    };
    let (user, secret) = (credential.user.as_deref(), credential.secret.reveal());
    let both = format!("{}:{secret}", user.unwrap_or(TOKEN_USER));
    let encoded = BASE64_STANDARD.encode(both);
    git.set(
        "http.extraHeader",
        format!("Authorization: Basic {encoded}"),
    );
    // A redirect must not carry the token to another server.
    git.set("http.followRedirects", "false");
    git.hide(encoded);
    git.hide(secret);
}

/// The error for a failure at a remote repository.
pub(super) fn failure(name: &str, failure: &Failure) -> ScmError {
    let (source_name, detail) = (name.to_owned(), failure.detail());
    match meaning(&failure.stderr) {
        Meaning::Auth => ScmError::Auth {
            source_name,
            detail,
        },
        Meaning::Missing => ScmError::NotFound {
            source_name,
            detail,
        },
        Meaning::Network => ScmError::Network {
            source_name,
            tries: 1,
            detail,
        },
        Meaning::Other => ScmError::Protocol {
            source_name,
            detail,
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Auth,
    Missing,
    Network,
    Other,
}

/// The first match counts: messages about credentials are more specific than a failed access.
const MEANINGS: [(Meaning, &[&str]); 4] = [
    (
        Meaning::Auth,
        &[
            "Authentication failed",
            "could not read Username",
            "could not read Password",
            "terminal prompts disabled",
            "error: 401",
            "error: 403",
            "HTTP 401",
            "HTTP 403",
            // From ssh, with the list of tried methods. Without the list it is about a file.
            "Permission denied (",
            "Too many authentication failures",
            "Host key verification failed",
        ],
    ),
    (
        Meaning::Missing,
        &[
            "error: 404",
            "error: 301",
            "error: 302",
            "error: 307",
            "error: 308",
            "error: 410",
            "HTTP 404",
            "not found",
            "does not appear to be a git repository",
            "couldn't find remote ref",
            "not a git repository",
            "not valid: is this a git repository",
            "not allowed",
        ],
    ),
    (
        Meaning::Network,
        &[
            "unable to access",
            "Could not resolve host",
            "Couldn't connect",
            "Connection refused",
            "Connection timed out",
            "Connection reset",
            "Connection closed",
            "No route to host",
            "Network is unreachable",
            "ssh: connect to host",
            "not responding",
            "Operation too slow",
            "timed out",
            "early EOF",
            "RPC failed",
            "unexpected disconnect",
            "hung up unexpectedly",
            "Recv failure",
            "error: 5",
            "error: 429",
            "HTTP 5",
            "HTTP 429",
            "unable to update",
            "transfer closed",
            "curl ",
        ],
    ),
    (Meaning::Other, &[]),
];

fn meaning(stderr: &str) -> Meaning {
    let fits = |(_, words): &&(Meaning, &[&str])| words.iter().any(|words| stderr.contains(words));
    MEANINGS
        .iter()
        .find(fits)
        .map_or(Meaning::Other, |(meaning, _)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_paths_and_tricks_are_distinguished() {
        let here = ["/srv/git/a", "a/b", "./a:b", "C/x:y", "."];
        let elsewhere = [
            "https://h/a.git",
            "HTTP://h/a",
            "file:///srv/a",
            "ssh://git@h/a",
            "git@h:a/b",
        ];
        let refused = [
            "",
            "-oProxyCommand=x",
            "--upload-pack=x",
            "ext::sh -c x",
            "fd::17",
            "git://h/a",
            "ftp://h/a",
            "https:///a",
            "https://user:tulip@h/a",
            "https://tulip@h/a",
            "ssh://u:tulip@h/a",
            "u:tulip@h:a",
            "a\nb",
        ];
        for url in here {
            assert_eq!(place(url).unwrap(), RemoteLocation::Here, "{url}");
        }
        for url in elsewhere {
            assert_eq!(place(url).unwrap(), RemoteLocation::Elsewhere, "{url}");
        }
        for url in refused {
            let error = place(url).unwrap_err();
            assert_eq!(error.code(), "SCM_INVALID", "{url}");
            assert!(!error.to_string().contains("tulip"), "{error}");
        }
    }

    #[test]
    fn branches_are_branches() {
        for branch in ["main", "feature/a-b", "v1.2", "\u{fc}"] {
            check_branch(branch).unwrap();
        }
        let odd = [
            "", "-x", "a..b", "a b", "a:b", "a^", "a@{1}", "a\n", "/a", "a/", "a*",
        ];
        for branch in odd {
            assert!(check_branch(branch).is_err(), "{branch}");
        }
    }

    #[test]
    fn failures_are_distinguished() {
        use Meaning::{Auth, Missing, Network, Other};
        let table = [
            (
                "fatal: could not read Username for 'http://h': terminal prompts disabled",
                Auth,
            ),
            (
                "fatal: unable to access 'http://h/': The requested URL returned error: 403",
                Auth,
            ),
            ("fatal: Authentication failed for 'http://h/'", Auth),
            (
                "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.",
                Auth,
            ),
            ("ssh: connect to host h port 22: No route to host", Network),
            ("ssh: connect to host h port 22: Permission denied", Network),
            ("connect: Network is unreachable", Network),
            (
                "kex_exchange_identification: read: Connection reset by peer",
                Network,
            ),
            ("Timeout, server h not responding.", Network),
            (
                "fatal: cannot create directory at 'x': Permission denied",
                Other,
            ),
            ("fatal: repository 'http://h/a/' not found", Missing),
            ("fatal: couldn't find remote ref refs/heads/x", Missing),
            (
                "fatal: '/x' does not appear to be a git repository",
                Missing,
            ),
            ("fatal: transport 'ext' not allowed", Missing),
            (
                "fatal: unable to access 'http://h/': The requested URL returned error: 500",
                Network,
            ),
            (
                "fatal: unable to access 'http://h/': Could not resolve host: h",
                Network,
            ),
            (
                "fatal: unable to access 'http://h/': Operation too slow. Less than 1 bytes/sec",
                Network,
            ),
            (
                "error: RPC failed; curl 18 transfer closed\nfatal: early EOF",
                Network,
            ),
            ("fatal: bad pack header", Other),
            ("", Other),
        ];
        for (stderr, expected) in table {
            assert_eq!(meaning(stderr), expected, "{stderr}");
        }
    }
}
