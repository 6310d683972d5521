//! The settings of repositories: how they are read, and what becomes of their changes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use consign_memory::card::CardKind;
use consign_outbound::Allowed;
use consign_scm::{Credential, Diffs, Mode, Reach, Secret, SourceOptions, SyncOptions};
use serde::Deserialize;

use super::{KeyPath, Layer, Problem, tree};

const TABLE: &str = "scm";

/// What the configuration says about repositories.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scm {
    /// How often `serve` looks after them; 0: never.
    pub(crate) every_seconds: u64,
    pub(crate) mode: Mode,
    pub(crate) diffs: Diffs,
    pub(crate) diff_max_bytes: u64,
    /// Changes that `serve` fetches of one repository at a time.
    pub(crate) materialize_max: u64,
    /// None: beside the artifacts.
    mirrors_root: Option<PathBuf>,
    /// Addresses, ranges and hosts besides the public ones.
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

impl Scm {
    /// How a repository is read that this process's user, or also a role of the database, has added.
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

    /// Beside the artifacts: what is among them can be read as evidence.
    pub(crate) fn mirrors_root(&self, artifacts_root: &Path) -> PathBuf {
        let beside = || artifacts_root.with_file_name("consign-mirrors");
        self.mirrors_root.clone().unwrap_or_else(beside)
    }

    fn reach(&self, roles_can_add: bool) -> Reach {
        let public_only = || {
            if roles_can_add {
                Allowed::default()
            } else {
                Allowed::everything()
            }
        };
        let allowed = self.allow.as_deref().map(Allowed::parse);
        Reach {
            // Checked when it was read.
            allowed: allowed.map_or_else(public_only, Result::unwrap_or_default),
            local_roots: match &self.local_roots {
                None if roles_can_add => Some(Vec::new()),
                said => said.clone(),
            },
        }
    }

    /// How it is written down.
    pub(crate) fn sync(&self) -> SyncOptions {
        SyncOptions {
            mode: self.mode,
            diffs: self.diffs,
            diff_bytes_max: self.diff_max_bytes,
        }
    }

    /// What a host is told, and no other host is.
    fn credential(&self, url: &str) -> Option<Credential> {
        let (with_port, host) = host(url)?;
        let of = |name: &str| {
            let user = self.users.get(name).cloned();
            let secret = self.tokens.get(name)?.clone();
            Some(Credential { user, secret })
        };
        let said = || {
            let is_its = |name: &&String| **name == with_port || **name == host;
            self.token_host.as_ref().filter(is_its)?;
            Some(Credential {
                user: self.token_user.clone(),
                secret: self.token.clone()?,
            })
        };
        of(&with_port).or_else(|| of(&host)).or_else(said)
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

/// The settings in types, and a problem for each that cannot be.
pub(super) fn read(entries: &Layer, problems: &mut Vec<Problem>) -> Option<Scm> {
    let table = KeyPath::of(TABLE);
    let mut refuse = |path: KeyPath, what: String| {
        let origin = entries.get(&path).map(|entry| entry.origin.clone());
        problems.push(Problem { origin, path, what });
    };
    let scm: Scm = match serde_json::from_value(tree(entries, &table)) {
        Ok(scm) => scm,
        Err(error) => {
            refuse(table, error.to_string());
            return None;
        }
    };
    let mut is_fine = true;
    let mut wrong = |path: KeyPath, what: &str| {
        is_fine = false;
        refuse(path, what.to_owned());
    };
    if scm.token.is_some() && scm.token_host.is_none() {
        let what = "needs scm.token_host: a token is shown to one host and no other";
        wrong(table.child("token"), what);
    }
    if let Some(Err(why)) = scm.allow.as_deref().map(Allowed::parse) {
        wrong(table.child("allow"), &why);
    }
    for user in scm
        .users
        .keys()
        .filter(|user| !scm.tokens.contains_key(*user))
    {
        let what = "scm.tokens has nothing for this host: the name alone is of no use";
        wrong(table.child("users").child(user), what);
    }
    for (name, hosts) in [
        ("tokens", scm.tokens.keys().collect::<Vec<_>>()),
        ("users", scm.users.keys().collect()),
    ] {
        for key in hosts {
            if key.contains('/') || key.contains('@') || *key != key.to_ascii_lowercase() {
                let what = "is named by a host in small letters, such as \"gitlab.example\"";
                wrong(table.child(name).child(key), what);
            }
        }
    }
    is_fine.then_some(scm)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scm(said: serde_json::Value) -> Scm {
        let mut settings = serde_json::json!({
            "every_seconds": 0, "mode": "strict", "diffs": "later", "diff_max_bytes": 1,
            "materialize_max": 1, "silence_max_seconds": 1, "batch_records_max": 1,
            "card_kind": "FACT",
        });
        let (Some(settings), Some(said)) = (settings.as_object_mut(), said.as_object()) else {
            panic!("objects");
        };
        settings.extend(said.clone());
        serde_json::from_value(serde_json::Value::Object(settings.clone())).unwrap()
    }

    #[test]
    fn roles_of_a_database_reach_public_addresses_and_no_folder() {
        let reach = |said: serde_json::Value, roles_can_add: bool| {
            let reach = scm(said).reach(roles_can_add);
            let loopback = reach.allowed.names("127.0.0.1");
            (loopback, reach.local_roots.map(|roots| roots.len()))
        };
        let none = serde_json::json!({});
        assert_eq!(reach(none.clone(), false), (true, None));
        assert_eq!(reach(none, true), (false, Some(0)));
        let said = serde_json::json!({"allow": ["127.0.0.0/8"], "local_roots": ["/srv/git"]});
        assert_eq!(reach(said.clone(), true), (true, Some(1)));
        assert_eq!(reach(said, false), (true, Some(1)));
        let closed = serde_json::json!({"allow": [], "local_roots": []});
        assert_eq!(reach(closed, false), (false, Some(0)));
    }

    /// A token goes to the host it was given for, and to no other.
    #[test]
    fn a_host_is_told_its_own_token() {
        let scm = scm(serde_json::json!({
            "tokens": {"gitlab.example": "a", "gitlab.example:8443": "b", "svn.example": "c"},
            "users": {"svn.example": "ann"},
            "token": "d", "token_host": "other.example",
        }));
        let told = |url: &str| {
            let told = scm.credential(url);
            told.map(|told| {
                (
                    told.user.unwrap_or_default(),
                    told.secret.reveal().to_owned(),
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
            assert_eq!(told(url), expected, "{url}");
        }
    }
}
