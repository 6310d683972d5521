//! Keeps `git` to the addresses that were checked.

use std::net::IpAddr;

use reqwest::Url;

use super::{command::Git, git_dir, remote::Place};
use crate::{Reach, ScmError};

/// How a repository is reached.
enum Way<'u> {
    /// By `git` itself, over HTTP.
    Http(Url),
    /// By `ssh`, which looks the host up itself.
    Ssh(&'u str),
    /// From a folder of this machine, by a URL.
    File,
}

/// Refuses what the settings rule out and can be seen before anything is looked up.
pub(super) fn check(reach: &Reach, url: &str, place: Place) -> Result<(), ScmError> {
    if place == Place::Here {
        return reach.check_repository(url, &git_dir(url.as_ref()));
    }
    match way(url)? {
        Way::Http(parsed) => reach.check_literal(url, &parsed),
        Way::Ssh(host) => reach.check_named(url, host),
        Way::File => reach.check_file_url(url),
    }
}

/// The same program, kept to the addresses that its host has now, and the URL as it was understood
/// here: `git` reads no other host out of it. A host that the settings name is not looked up.
pub(super) async fn pinned(git: &Git, reach: &Reach, url: &str) -> Result<(Git, String), ScmError> {
    let mut git = git.clone();
    let parsed = match way(url)? {
        Way::Http(parsed) if !reach.allowed.names(parsed.host_str().unwrap_or_default()) => parsed,
        _ => return Ok((git, url.to_owned())),
    };
    // Another host would not have been checked.
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

fn way(url: &str) -> Result<Way<'_>, ScmError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        // `user@host:path`.
        let before = url.split(':').next().unwrap_or_default();
        return Ok(Way::Ssh(before.rsplit('@').next().unwrap_or_default()));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "file" => Ok(Way::File),
        "ssh" => {
            let authority = rest.split('/').next().unwrap_or_default();
            // Git decodes these before it looks for the host, and finds another one.
            if authority.contains(['%', '\\', '?', '#']) {
                let why =
                    format!("{url:?} spells its host or user with %, \\, ? or #; write it out");
                return Err(ScmError::Invalid(why));
            }
            let host = authority.rsplit('@').next().unwrap_or_default();
            Ok(Way::Ssh(match host.rsplit_once(':') {
                Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
                _ => host,
            }))
        }
        _ => match Url::parse(url) {
            Ok(parsed) => Ok(Way::Http(parsed)),
            Err(error) => Err(ScmError::Invalid(format!("{url:?} is no URL: {error}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use consign_outbound::Allowed;

    use super::*;

    fn reach(allow: &[&str]) -> Reach {
        let allow: Vec<String> = allow.iter().map(|&entry| entry.to_owned()).collect();
        Reach {
            allowed: Allowed::parse(&allow).unwrap(),
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
            let checked = check(&reach, url, Place::Elsewhere);
            assert_eq!(checked.is_ok(), is_allowed, "{url}: {checked:?}");
        }
        assert!(check(&reach, "/srv/a", Place::Here).is_err());
        check(&Reach::anywhere(), "/srv/a", Place::Here).unwrap();
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
