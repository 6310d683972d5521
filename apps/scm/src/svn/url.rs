//! URLs of repositories, which are arguments of a program.

use crate::ScmError;

const SCHEMES: [&str; 5] = ["svn", "svn+ssh", "http", "https", "file"];

/// The URL for `svn`. Other schemes run programs of the user's settings; a password would be
/// visible to other users.
pub(super) fn checked(url: &str) -> Result<String, ScmError> {
    let url = url.trim_end_matches('/');
    let refused = |why: &str| {
        let shown = shown(url);
        Err(ScmError::Invalid(format!("{shown:?} {why}")))
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return refused("is not a URL; use an svn, svn+ssh, http, https or file URL");
    };
    if !SCHEMES.contains(&scheme.to_ascii_lowercase().as_str()) {
        return refused("has a scheme other than svn, svn+ssh, http, https and file");
    }
    if url.chars().any(char::is_control) {
        return refused("has control characters");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    // Programs disagree on where the host ends then.
    if authority.contains(['?', '#', '\\', '%']) {
        return refused("has an invalid host");
    }
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains(':') {
        return refused("contains a password; set it in scm.tokens");
    }
    // Programs would read it as an option.
    if host.starts_with('-') || user.starts_with('-') {
        return refused("has an invalid host");
    }
    if host.is_empty() && !scheme.eq_ignore_ascii_case("file") {
        return refused("has no host");
    }
    Ok(url.to_owned())
}

/// The host of a checked URL, without its port; `None` for local ones.
pub(super) fn host(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(host),
        _ => Some(host),
    }
}

/// Without what may be a password.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let ends = rest.find('/').unwrap_or(rest.len());
    let place = match rest[..ends].rfind('@') {
        Some(at) => &rest[at + 1..],
        None => rest,
    };
    format!("{scheme}://{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_repositories_are_taken() {
        let taken = [
            "svn://h/r",
            "svn://h:3690/r/trunk",
            "svn+ssh://me@h/r",
            "https://h/r%20x",
            "file:///srv/r",
            "http://[::1]:80/r@2",
        ];
        for url in taken {
            assert_eq!(checked(url).unwrap(), url);
        }
        let hosts = taken.map(|url| host(url).unwrap_or("-"));
        assert_eq!(hosts, ["h", "h", "h", "h", "-", "[::1]"]);
        assert_eq!(checked("svn://h/r//").unwrap(), "svn://h/r");
        let refused = [
            "/srv/r",
            "--config-dir=/tmp/x",
            "svn+evil://h/r",
            "svn+ssh://-oProxyCommand=x/r",
            "svn+ssh://-x@h/r",
            "svn://me:secret@h/r",
            "svn:///r",
            "svn://h/r\n",
            "svn://h?@127.0.0.1/r",
            "svn://h\\@127.0.0.1/r",
            "",
        ];
        for url in refused {
            let error = checked(url).unwrap_err();
            assert_eq!(error.code(), "SCM_INVALID");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
