//! `consign scm add`: adds a repository.

use std::path::Path;

use clap::{Args, ValueEnum};
use consign_app::{
    config::{Flags, failure},
    context::Context,
    failure::{Exit, Failure},
    output::or_dash,
};
use consign_scm::{NewRepo, Provider, Repo};
use jiff::Timestamp;

use super::OrFailure as _;
use crate::app::{ledger, options};

/// Longest name of a project: spaces of memories are named by it.
const PROJECT_BYTES_MAX: usize = 100;

/// Add a repository. Adding it again changes its project or branch.
#[derive(Args, Debug)]
pub(super) struct Add {
    /// A path, a URL, or the URL of a GitLab project; without credentials, which are set in scm.tokens
    url: String,
    /// Kind of source [default: derived from the URL]
    #[arg(long, value_enum)]
    provider: Option<Kind>,
    /// The project its memories belong to: they go to team:PROJECT [default: memory.project_key]
    #[arg(long, value_parser = project)]
    project: Option<String>,
    /// The branch to read [default: the repository's default]
    #[arg(long)]
    branch: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Git,
    Svn,
    Gitlab,
}

impl Add {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let url = plain_url(&self.url).map_err(|why| invalid(&why))?;
        let ledger = ledger(&context.creating().open().await?);
        let known = ledger.repos().await.or_failure()?;
        let known = known
            .iter()
            .find(|repo| repo.url == url || repo.url == file_url(&url));
        let known = known.map(|repo| (repo.repo_id, repo.provider));
        let provider = match self.provider {
            Some(Kind::Git) => Provider::Git,
            Some(Kind::Svn) => Provider::Svn,
            Some(Kind::Gitlab) => Provider::Gitlab,
            None => known.map_or_else(|| guess(&url), |(_, provider)| provider),
        };
        if let Some((repo_id, other)) = known.filter(|(_, other)| *other != provider) {
            return Err(invalid(&format!(
                "it is repository {repo_id} with provider {}, which cannot be changed",
                other.as_str()
            )));
        }
        if self.branch.is_some() && provider == Provider::Svn {
            let why = "Subversion has no branches: add the URL of the branch's folder";
            return Err(invalid(why));
        }
        let repo = NewRepo {
            provider,
            url: match provider {
                Provider::Svn => file_url(&url),
                Provider::Git | Provider::Gitlab => url,
            },
            project_key: self.project,
            default_branch: self.branch,
        };
        check(context, &repo)?;
        let repo = ledger.add_repo(&repo).await.or_failure()?;
        if context.out.is_json() {
            context.out.json(&repo)?;
            return Ok(Exit::Fine);
        }
        context.out.line(format_args!(
            "repository {}: {} ({}), project {}, branch {}",
            repo.repo_id,
            consign_app::output::plain(&repo.url),
            repo.provider.as_str(),
            or_dash(repo.project_key.as_deref()),
            or_dash(repo.default_branch.as_deref()),
        ))?;
        Ok(Exit::Fine)
    }
}

/// Rejects invalid repositories, without network access.
fn check(context: &Context, repo: &NewRepo) -> Result<(), Failure> {
    let config = context.config(Flags::new())?;
    let roles_can_add = config.address()?.has_roles();
    let settings = options::read(&config).map_err(|problems| failure(&problems))?;
    let options = settings.source(&repo.url, &options::artifacts_root(&config), roles_can_add);
    let repo = Repo {
        repo_id: 0,
        provider: repo.provider,
        url: repo.url.clone(),
        project_key: None,
        default_branch: repo.default_branch.clone(),
        created_at: Timestamp::UNIX_EPOCH,
    };
    consign_scm::open(&repo, &options).or_failure()?;
    Ok(())
}

fn invalid(why: &str) -> Failure {
    Failure::new(Exit::Refused, "SCM_INVALID", why)
}

fn project(text: &str) -> Result<String, String> {
    let is_plain = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    if is_plain && (1..=PROJECT_BYTES_MAX).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "a project is 1 to {PROJECT_BYTES_MAX} bytes without blanks"
        ))
    }
}

/// The stored URL: absolute paths, no slash at the end, no credentials.
pub(super) fn plain_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return Err("neither a URL nor a path".to_owned());
    }
    let whole = match text.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.split('/').next().unwrap_or_default();
            let user = authority.rsplit_once('@').map(|(user, _)| user);
            let is_web =
                scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
            if user.is_some_and(|user| is_web || user.contains(':')) {
                let why = "the URL contains credentials: set them in scm.tokens and \
                           scm.users";
                return Err(why.to_owned());
            }
            // These may contain tokens.
            if is_web && rest.contains(['?', '#']) {
                let why = "the URL of a repository must not contain '?' or '#': remove that part; \
                           credentials are set in scm.tokens";
                return Err(why.to_owned());
            }
            text.to_owned()
        }
        None if is_ssh(text) => {
            let user = text.split_once('@').map(|(user, _)| user);
            if user.is_some_and(|user| user.contains(':')) {
                let why = "the URL contains a password: ssh uses a key, as in \
                           git@host:path";
                return Err(why.to_owned());
            }
            text.to_owned()
        }
        // Other processes may run in another folder.
        None => {
            let path = std::path::absolute(text).map_err(|error| error.to_string())?;
            let path = path.to_str().map(str::to_owned);
            path.ok_or("the path is not UTF-8")?
        }
    };
    let plain = whole.trim_end_matches('/');
    if plain.is_empty() || plain.ends_with(':') {
        Ok(whole)
    } else {
        Ok(plain.to_owned())
    }
}

/// Subversion needs a URL for local repositories too.
pub(super) fn file_url(place: &str) -> String {
    if place.contains("://") {
        return place.to_owned();
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let path = place.bytes().map(|byte| {
        if is_plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    format!("file://{}", path.collect::<String>())
}

/// `git@host:path`: a colon before any slash.
fn is_ssh(text: &str) -> bool {
    let place = text.split('/').next().unwrap_or_default();
    place.contains(':') && !Path::new(text).exists()
}

/// The provider derived from a URL.
fn guess(url: &str) -> Provider {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "svn" || scheme == "svn+ssh" {
        return Provider::Svn;
    }
    if scheme == "file" || (scheme.is_empty() && !is_ssh(url)) {
        let folder = Path::new(rest);
        let is_svn = folder.join("format").is_file() && folder.join("db").join("uuid").is_file();
        return if is_svn { Provider::Svn } else { Provider::Git };
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.to_ascii_lowercase();
    let is_web = scheme == "http" || scheme == "https";
    match () {
        () if path.ends_with(".git") || !is_web => Provider::Git,
        () if host.starts_with("gitlab.") || path.contains("api/v4/projects/") => Provider::Gitlab,
        () if host.starts_with("svn.") || path.starts_with("svn/") || path.contains("/svn/") => {
            Provider::Svn
        }
        () => Provider::Git,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_determines_its_provider() {
        for (url, expected) in [
            ("svn://h.example/r", Provider::Svn),
            ("svn+ssh://me@h.example/r", Provider::Svn),
            ("https://svn.h.example/r/trunk", Provider::Svn),
            ("https://h.example/svn/r", Provider::Svn),
            ("https://h.example/g/p.git", Provider::Git),
            ("https://gitlab.example/g/p.git", Provider::Git),
            ("https://gitlab.example/g/p", Provider::Gitlab),
            ("https://h.example/api/v4/projects/42", Provider::Gitlab),
            ("https://h.example/g/p", Provider::Git),
            ("git@gitlab.example:g/p", Provider::Git),
            ("ssh://git@gitlab.example/g/p", Provider::Git),
            ("/srv/p", Provider::Git),
        ] {
            assert_eq!(guess(url), expected, "{url}");
        }
        let svn = tempfile::tempdir().unwrap();
        std::fs::create_dir(svn.path().join("db")).unwrap();
        for file in ["format", "db/uuid"] {
            std::fs::write(svn.path().join(file), "5").unwrap();
        }
        let path = svn.path().to_str().unwrap();
        assert_eq!(guess(path), Provider::Svn);
        assert_eq!(guess(&format!("file://{path}")), Provider::Svn);
    }

    #[test]
    fn a_url_is_kept_whole_and_without_credentials() {
        for (text, kept) in [
            ("https://h.example/g/p/", "https://h.example/g/p"),
            ("ssh://git@h.example/p", "ssh://git@h.example/p"),
            ("git@h.example:p.git", "git@h.example:p.git"),
            ("/srv/p.git/", "/srv/p.git"),
            ("file:///srv/p", "file:///srv/p"),
            ("/", "/"),
        ] {
            assert_eq!(plain_url(text).as_deref(), Ok(kept), "{text}");
        }
        assert_eq!(file_url("/srv/a b/ü"), "file:///srv/a%20b/%C3%BC");
        assert_eq!(file_url("svn://h.example/a b"), "svn://h.example/a b");
        let here = plain_url("p").unwrap();
        assert!(here.starts_with('/') && here.ends_with("/p"), "{here}");
        for bad in [
            "",
            " ",
            "--upload-pack=x",
            "https://me:pw@h.example/p",
            "https://token@h.example/p",
            "ssh://me:pw@h.example/p",
            "svn://me:pw@h.example/p",
            "me:pw@h.example:p",
            "me:p/pw@h.example:p",
            "https://h.example/p?private_token=pw",
            "https://h.example?private_token=pw",
            "HTTP://h.example/p#pw",
            "https://h.example/p\nx",
        ] {
            let why = plain_url(bad).unwrap_err();
            assert!(!why.contains("pw"), "{bad:?}: {why}");
        }
    }
}
