//! Typed settings of repositories.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use consign_app::config::{Config, KeyPath, Problem};
use consign_memory::card::CardKind;
use consign_outbound::Exceptions;
use consign_scm::{Credential, Diffs, Mode, Reach, Secret, SourceOptions, SyncOptions};
use serde::Deserialize;

const TABLE: &str = "scm";

/// The settings of repositories.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScmSettings {
    /// Interval of rounds in `serve`; 0: never.
    pub(crate) every_seconds: u64,
    pub(crate) mode: Mode,
    pub(crate) diffs: Diffs,
    pub(crate) diff_max_bytes: u64,
    /// Maximum changes of one repository per round.
    pub(crate) materialize_max: u64,
    /// `None`: beside the artifacts.
    mirrors_root: Option<PathBuf>,
    /// Allowed addresses, ranges and hosts besides public ones.
    allow: Option<Vec<String>>,
    local_roots: Option<Vec<PathBuf>>,
    pub(crate) silence_max_seconds: u64,
    pub(crate) batch_records_max: usize,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) card_kind: CardKind,
    pub(crate) actor_user_id: Option<String>,
    /// By host.
    #[serde(default)]
    tokens: BTreeMap<String, Secret>,
    /// By host.
    #[serde(default)]
    users: BTreeMap<String, String>,
    token: Option<Secret>,
    token_host: Option<String>,
    token_user: Option<String>,
}

impl ScmSettings {
    /// Source options of a repository added by this process's user, or also by database roles.
    pub(crate) fn source(
        &self,
        url: &str,
        artifacts_root: &Path,
        roles_can_add: bool,
    ) -> SourceOptions {
        SourceOptions {
            reach: self.reach(roles_can_add),
            credential: self.credential(url),
            ca_file: self.ca_file.clone(),
            batch_records_max: self.batch_records_max,
            silence_max: Duration::from_secs(self.silence_max_seconds),
            ..SourceOptions::new(self.mirrors_root(artifacts_root))
        }
    }

    /// Outside of the artifacts, which agents can read as evidence.
    pub(crate) fn mirrors_root(&self, artifacts_root: &Path) -> PathBuf {
        let beside = || artifacts_root.with_file_name("consign-mirrors");
        self.mirrors_root.clone().unwrap_or_else(beside)
    }

    fn reach(&self, roles_can_add: bool) -> Reach {
        let public_only = || {
            if roles_can_add {
                Exceptions::default()
            } else {
                Exceptions::everything()
            }
        };
        let allowed = self.allow.as_deref().map(Exceptions::parse);
        Reach {
            // Validated by `read`.
            allowed: allowed.map_or_else(public_only, Result::unwrap_or_default),
            local_roots: match &self.local_roots {
                None if roles_can_add => Some(Vec::new()),
                given => given.clone(),
            },
        }
    }

    /// Options of a synchronisation.
    pub(crate) fn sync(&self) -> SyncOptions {
        SyncOptions {
            mode: self.mode,
            diffs: self.diffs,
            diff_bytes_max: self.diff_max_bytes,
        }
    }

    /// The credential of a URL's host.
    fn credential(&self, url: &str) -> Option<Credential> {
        let (with_port, host) = host(url)?;
        let of = |name: &str| {
            let user = self.users.get(name).cloned();
            let secret = self.tokens.get(name)?.clone();
            Some(Credential { user, secret })
        };
        let given = || {
            let is_its = |name: &&String| **name == with_port || **name == host;
            self.token_host.as_ref().filter(is_its)?;
            Some(Credential {
                user: self.token_user.clone(),
                secret: self.token.clone()?,
            })
        };
        of(&with_port).or_else(|| of(&host)).or_else(given)
    }
}

/// The host of a URL in small letters, with and without its port.
fn host(url: &str) -> Option<(String, String)> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let with_port = authority.rsplit('@').next().unwrap_or_default();
    let with_port = with_port.to_ascii_lowercase();
    let host = match with_port.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
        _ => with_port.clone(),
    };
    (!host.is_empty()).then_some((with_port, host))
}

/// The folder of artifacts, which the app `memory` owns.
pub(crate) fn artifacts_root(config: &Config) -> PathBuf {
    let root = config.value("memory.artifacts_root");
    let root = root.and_then(|root| root.as_str()).unwrap_or_default();
    PathBuf::from(root)
}

/// The validated settings.
pub(crate) fn read(config: &Config) -> Result<ScmSettings, Vec<Problem>> {
    let table = KeyPath::of(TABLE);
    let scm: ScmSettings = serde_json::from_value(config.tree(TABLE))
        .map_err(|error| vec![config.problem(table.clone(), error.to_string())])?;
    let mut problems = Vec::new();
    let mut wrong = |path: KeyPath, what: &str| problems.push(config.problem(path, what));
    if scm.token.is_some() && scm.token_host.is_none() {
        let what = "requires scm.token_host: a token is sent to one host only";
        wrong(table.child("token"), what);
    }
    if let Some(Err(why)) = scm.allow.as_deref().map(Exceptions::parse) {
        wrong(table.child("allow"), &why);
    }
    for user in scm
        .users
        .keys()
        .filter(|user| !scm.tokens.contains_key(*user))
    {
        let what = "scm.tokens has no entry for this host";
        wrong(table.child("users").child(user), what);
    }
    for (name, hosts) in [
        ("tokens", scm.tokens.keys().collect::<Vec<_>>()),
        ("users", scm.users.keys().collect()),
    ] {
        for key in hosts {
            if key.contains('/') || key.contains('@') || *key != key.to_ascii_lowercase() {
                let what = "must be a host in lower case, such as \"gitlab.example\"";
                wrong(table.child(name).child(key), what);
            }
        }
    }
    if has_readable_mirrors(&scm, &artifacts_root(config)) {
        let what =
            "is inside memory.artifacts_root, where agents can read it; use a folder outside of it";
        wrong(table.child("mirrors_root"), what);
    }
    if problems.is_empty() {
        Ok(scm)
    } else {
        Err(problems)
    }
}

/// Mirrors among the artifacts could be read as evidence.
fn has_readable_mirrors(scm: &ScmSettings, artifacts_root: &Path) -> bool {
    let mirrors = std::path::absolute(scm.mirrors_root(artifacts_root));
    let artifacts = std::path::absolute(artifacts_root);
    match (mirrors, artifacts) {
        (Ok(mirrors), Ok(artifacts)) => mirrors.starts_with(artifacts),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scm(given: serde_json::Value) -> ScmSettings {
        let mut settings = serde_json::json!({
            "every_seconds": 0, "mode": "strict", "diffs": "later", "diff_max_bytes": 1,
            "materialize_max": 1, "silence_max_seconds": 1, "batch_records_max": 1,
            "card_kind": "FACT",
        });
        let (Some(settings), Some(given)) = (settings.as_object_mut(), given.as_object()) else {
            panic!("objects");
        };
        settings.extend(given.clone());
        serde_json::from_value(serde_json::Value::Object(settings.clone())).unwrap()
    }

    #[test]
    fn roles_of_a_database_reach_public_addresses_and_no_folder() {
        let reach = |given: serde_json::Value, roles_can_add: bool| {
            let reach = scm(given).reach(roles_can_add);
            let loopback = reach.allowed.names("127.0.0.1");
            (loopback, reach.local_roots.map(|roots| roots.len()))
        };
        let none = serde_json::json!({});
        assert_eq!(reach(none.clone(), false), (true, None));
        assert_eq!(reach(none, true), (false, Some(0)));
        let given = serde_json::json!({"allow": ["127.0.0.0/8"], "local_roots": ["/srv/git"]});
        assert_eq!(reach(given.clone(), true), (true, Some(1)));
        assert_eq!(reach(given, false), (true, Some(1)));
        let closed = serde_json::json!({"allow": [], "local_roots": []});
        assert_eq!(reach(closed, false), (false, Some(0)));
    }

    /// A token is sent to its host only.
    #[test]
    fn a_token_is_sent_to_its_host_only() {
        let scm = scm(serde_json::json!({
            "tokens": {"gitlab.example": "a", "gitlab.example:8443": "b", "svn.example": "c"},
            "users": {"svn.example": "ann"},
            "token": "d", "token_host": "other.example",
        }));
        let found = |url: &str| {
            let found = scm.credential(url);
            found.map(|found| {
                (
                    found.user.unwrap_or_default(),
                    found.secret.reveal().to_owned(),
                )
            })
        };
        let some = |user: &str, secret: &str| Some((user.to_owned(), secret.to_owned()));
        for (url, expected) in [
            ("https://gitlab.example/g/p", some("", "a")),
            ("https://GitLab.example/g/p", some("", "a")),
            ("https://gitlab.example:8443/g/p", some("", "b")),
            ("https://gitlab.example:9/g/p", some("", "a")),
            ("svn://svn.example/repo", some("ann", "c")),
            ("https://x@other.example/p.git", some("", "d")),
            ("https://gitlab.example.evil.example/p", None),
            ("https://evil.example/gitlab.example", None),
            ("https://evil.example?x=@gitlab.example/", None),
            ("/srv/gitlab.example/p.git", None),
            ("git@gitlab.example:p.git", None),
        ] {
            assert_eq!(found(url), expected, "{url}");
        }
    }
}
