//! Restricts `git` to checked addresses.

use std::net::IpAddr;

use reqwest::Url;

use super::{command::Git, git_dir, remote::RemoteLocation};
use crate::{Reach, ScmError};

/// Transport of a repository.
enum Transport<'u> {
    /// HTTP, by `git` itself.
    Http(Url),
    /// `ssh`, which resolves the host itself.
    Ssh(&'u str),
    /// A `file:` URL.
    File,
}

/// Rejects URLs that the settings exclude, without resolving names.
pub(super) fn check(reach: &Reach, url: &str, place: RemoteLocation) -> Result<(), ScmError> {
    if place == RemoteLocation::Here {
        return reach.check_repository(url, &git_dir(url.as_ref()));
    }
    match way(url)? {
        Transport::Http(parsed) => reach.check_literal(url, &parsed),
        Transport::Ssh(host) => reach.check_named(url, host),
        Transport::File => reach.check_file_url(url),
    }
}

/// The same `git`, pinned to the current addresses of the host, and the URL as parsed here, so that
/// `git` sees no other host. A host named in the settings is not resolved.
pub(super) async fn pinned(git: &Git, reach: &Reach, url: &str) -> Result<(Git, String), ScmError> {
    let mut git = git.clone();
    let parsed = match way(url)? {
        Transport::Http(parsed) if !reach.allowed.names(parsed.host_str().unwrap_or_default()) => {
            parsed
        }
        _ => return Ok((git, url.to_owned())),
    };
    // A redirect could lead to an unchecked host.
    git.set("http.followRedirects", "false");
    if let (Some(host), Some(port)) = (parsed.domain(), parsed.port_or_known_default()) {
        let addresses = reach.addresses(url, host).await?;
        git.set("http.curloptResolve", resolve(host, port, &addresses));
    }
    Ok((git, parsed.to_string()))
}

fn resolve(host: &str, port: u16, addresses: &[IpAddr]) -> String {
    let written = addresses.iter().map(|address| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    let written: Vec<String> = written.collect();
    format!("{host}:{port}:{}", written.join(","))
}

fn way(url: &str) -> Result<Transport<'_>, ScmError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        // `user@host:path`.
        let before = url.split(':').next().unwrap_or_default();
        return Ok(Transport::Ssh(
            before.rsplit('@').next().unwrap_or_default(),
        ));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "file" => Ok(Transport::File),
        "ssh" => {
            let authority = rest.split('/').next().unwrap_or_default();
            // Git decodes these before it determines the host, and would find another one.
            if authority.contains(['%', '\\', '?', '#']) {
                let why =
                    format!("{url:?} has %, \\, ? or # in its host or user; write them unescaped");
                return Err(ScmError::Invalid(why));
            }
            let host = authority.rsplit('@').next().unwrap_or_default();
            Ok(Transport::Ssh(match host.rsplit_once(':') {
                Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
                _ => host,
            }))
        }
        _ => match Url::parse(url) {
            Ok(parsed) => Ok(Transport::Http(parsed)),
            Err(error) => Err(ScmError::Invalid(format!("{url:?} is not a URL: {error}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use consign_outbound::Exceptions;

    use super::*;

    fn reach(allow: &[&str]) -> Reach {
        let allow: Vec<String> = allow.iter().map(|&entry| entry.to_owned()).collect();
        Reach {
            allowed: Exceptions::parse(&allow).unwrap(),
            local_roots: Some(Vec::new()),
        }
    }

    #[test]
    fn rejects_what_the_settings_rule_out() {
        let reach = reach(&["git.example", "10.0.0.0/8"]);
        for (url, is_allowed) in [
            ("https://github.example/a.git", true),
            ("https://10.1.2.3/a.git", true),
            ("http://127.0.0.1:9200/", false),
            ("http://2130706433/", false),
            ("http://[::ffff:169.254.169.254]/latest", false),
            ("https://h\\@127.0.0.1/a", true),
            ("ssh://git@git.example/a", true),
            ("ssh://git@git.example:22/a", true),
            ("git@git.example:a", true),
            ("ssh://git@localhost/srv/a", false),
            ("git@other.example:a", false),
            ("ssh://git.example@127.0.0.1/a", false),
            ("ssh://git.example%40127.0.0.1/a", false),
            ("ssh://localhost%2Fx@git.example/a", false),
            ("file:///srv/a", false),
        ] {
            let checked = check(&reach, url, RemoteLocation::Elsewhere);
            assert_eq!(checked.is_ok(), is_allowed, "{url}: {checked:?}");
        }
        assert!(check(&reach, "/srv/a", RemoteLocation::Here).is_err());
        check(&Reach::anywhere(), "/srv/a", RemoteLocation::Here).unwrap();
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_is_refused_before_git_starts() {
        let git = Git::new("x", "/".as_ref(), std::time::Duration::from_secs(1));
        let url = "http://localhost:1/a.git";
        let refused = pinned(&git, &reach(&[]), url).await.unwrap_err();
        assert_eq!(refused.code(), "SCM_NOT_ALLOWED", "{refused}");
        pinned(&git, &reach(&["localhost"]), url).await.unwrap();
    }

    #[test]
    fn addresses_are_written_as_curl_reads_them() {
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let written = resolve("git.example", 443, &addresses);
        assert_eq!(written, "git.example:443:192.0.2.1,[2001:db8::1]");
    }
}
