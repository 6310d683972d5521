//! Settings in types.

use std::path::PathBuf;

use consign_postgres::Pooler;
use consign_server::{Scope, ServerOptions, SessionKey, TokenHash};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Config, KeyPath, Layer, Problem, failure,
    queues::{self, QueueConfig},
};
use crate::failure::Failure;

/// Every setting.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) database: Database,
    pub(crate) server: ServerOptions,
    pub(crate) worker: Worker,
    pub(crate) retention: Retention,
    pub(crate) log: Log,
    pub(crate) telemetry: Telemetry,
    /// By name.
    pub(crate) queues: Vec<QueueConfig>,
}

/// Which database, and how to reach it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Database {
    #[serde(with = "PoolerWord")]
    pub(crate) pooler: Pooler,
    pub(crate) listen_url: Option<String>,
    pub(crate) connections_max: u32,
    /// Whether `serve` and `work` bring the schema up to date first.
    pub(crate) migrate_on_start: bool,
    /// Whether they end where the schema does not fit; else they wait until it does.
    pub(crate) check_on_start: bool,
}

#[derive(Deserialize)]
#[serde(remote = "Pooler", rename_all = "snake_case")]
enum PoolerWord {
    Session,
    Transaction,
}

/// Delivering.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Worker {
    /// The name in leases; none for host and process.
    pub(crate) owner: Option<String>,
    pub(crate) grace_ms: u64,
    pub(crate) claimed_max_bytes: usize,
}

/// How history leaves.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Retention {
    /// Whether `serve` and `work` take their turn.
    pub(crate) enabled: bool,
    pub(crate) interval_ms: u64,
    /// The folder of the archive.
    pub(crate) archive: Option<PathBuf>,
    pub(crate) range_messages: u64,
    pub(crate) range_age_ms: u64,
    pub(crate) size_max_bytes: Option<u64>,
    /// A path on the disk of a server.
    pub(crate) disk_path: Option<PathBuf>,
}

/// What is logged, and how.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) filter: String,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Metrics and traces.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Telemetry {
    pub(crate) sample_interval_ms: u64,
    pub(crate) otlp_endpoint: Option<String>,
}

/// The sections that are deserialized directly.
#[derive(Deserialize)]
struct Sections {
    database: Database,
    server: ServerOptions,
    worker: Worker,
    retention: Retention,
    log: Log,
    telemetry: Telemetry,
}

impl Settings {
    /// The engine's settings. A configuration that was loaded has no problems with them.
    pub(crate) fn of(config: &Config) -> Result<Self, Failure> {
        Self::read(config).map_err(|problems| failure(&problems))
    }

    fn read(config: &Config) -> Result<Self, Vec<Problem>> {
        let entries = config.entries();
        let mut problems = wrong_tokens(entries);
        problems.extend(wrong_session_key(entries));
        let queues = queues::read(config, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut whole = config.tree("");
        list_tokens(&mut whole["server"]);
        let sections: Sections = serde_json::from_value(whole).map_err(|error| {
            // Types and ranges were checked value by value; this is the second net.
            vec![config.problem(KeyPath::root(), error.to_string())]
        })?;
        let Sections {
            database,
            mut server,
            worker,
            retention,
            log,
            telemetry,
        } = sections;
        server.apps_have_tokens = config.apps().any(|app| app.has_tokens(config));
        // One more listens for wake-ups.
        server.other_files = database.connections_max as usize + 1;
        Ok(Self {
            database,
            server,
            worker,
            retention,
            log,
            telemetry,
            queues,
        })
    }
}

/// What is wrong with the engine's settings beyond the kind and bounds of each.
pub(crate) fn check(config: &Config) -> Vec<Problem> {
    Settings::read(config).err().unwrap_or_default()
}

/// Named tables of tokens as the list the server takes.
fn list_tokens(server: &mut Value) {
    let Some(Value::Object(tokens)) = server.get("tokens") else {
        return;
    };
    let entry = |(name, token): (&String, &Value)| {
        let mut token = token.clone();
        token["name"] = name.as_str().into();
        token
    };
    let list: Value = tokens.iter().map(entry).collect();
    server["tokens"] = list;
}

/// A secret that is none.
fn wrong_session_key(entries: &Layer) -> Option<Problem> {
    let path = KeyPath::of("server.session_key");
    let entry = entries.get(&path)?;
    let read = serde_json::from_value::<SessionKey>(entry.value.clone());
    let error = read.err()?;
    Some(Problem::at(&entry.origin, &path, error.to_string()))
}

/// Tokens with missing or invalid fields.
fn wrong_tokens(entries: &Layer) -> Vec<Problem> {
    let table = KeyPath::of("server.tokens");
    let is_token = |path: &&KeyPath| path.starts_with(&table) && path.segments().len() == 3;
    let mut problems = Vec::new();
    for path in entries.keys().filter(is_token) {
        for part in ["hash", "scopes"] {
            let place = path.child(part);
            let Some(entry) = entries.get(&place) else {
                let what = format!("a token needs a {part}; `consign token new` makes one");
                problems.push(Problem::at(&entries[path].origin, path, what));
                continue;
            };
            let read = match part {
                "hash" => serde_json::from_value::<TokenHash>(entry.value.clone()).map(drop),
                _ => serde_json::from_value::<Vec<Scope>>(entry.value.clone()).map(drop),
            };
            if let Err(error) = read {
                problems.push(Problem::at(&entry.origin, &place, error.to_string()));
            }
        }
    }
    problems
}
