//! Settings in types.

use consign_postgres::Pooler;
use consign_server::{Scope, ServerOptions, SessionKey, TokenHash};
use serde::Deserialize;
use serde_json::Value;

use super::{
    KeyPath, Layer, Problem,
    memory::{self, Memory},
    orders::{self, Orders},
    payments::{self, Payments},
    queues::{self, QueueConfig},
    scm::{self, Scm},
    tree,
};

/// Every setting.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) database: Database,
    pub(crate) server: ServerOptions,
    pub(crate) worker: Worker,
    pub(crate) log: Log,
    pub(crate) telemetry: Telemetry,
    pub(crate) orders: Orders,
    pub(crate) payments: Payments,
    pub(crate) memory: Memory,
    pub(crate) scm: Scm,
    /// By name.
    pub(crate) queues: Vec<QueueConfig>,
}

/// Which database, and how to reach it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Database {
    /// Where it is; none for the file in the working directory.
    pub(crate) url: Option<String>,
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

/// The sections that are read as they stand.
#[derive(Deserialize)]
struct Sections {
    database: Database,
    server: ServerOptions,
    worker: Worker,
    log: Log,
    telemetry: Telemetry,
}

impl Settings {
    pub(super) fn read(entries: &Layer) -> Result<Self, Vec<Problem>> {
        let mut problems = wrong_tokens(entries);
        problems.extend(wrong_session_key(entries));
        let queues = queues::read(entries, &mut problems);
        let orders = orders::read(entries, &mut problems);
        let payments = payments::read(entries, &mut problems);
        let memory = memory::read(entries, &mut problems);
        let scm = scm::read(entries, &mut problems);
        if let (Some(memory), Some(scm)) = (&memory, &scm) {
            problems.extend(readable_mirrors(entries, memory, scm));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut whole = tree(entries, &KeyPath::root());
        list_tokens(&mut whole["server"]);
        let sections: Sections = serde_json::from_value(whole).map_err(|error| {
            // Types and ranges were checked value by value; this is the second net.
            let what = error.to_string();
            vec![Problem {
                origin: None,
                path: KeyPath::root(),
                what,
            }]
        })?;
        let Sections {
            database,
            mut server,
            worker,
            log,
            telemetry,
        } = sections;
        let memory = memory.expect("invariant: what cannot be read is a problem");
        let agents = memory.options.tokens();
        server.agents_have_tokens = agents.is_ok_and(|tokens| !tokens.is_empty());
        // One more listens for wake-ups.
        server.other_files = database.connections_max as usize + 1;
        Ok(Self {
            database,
            server,
            worker,
            log,
            telemetry,
            orders: orders.expect("invariant: what cannot be read is a problem"),
            payments: payments.expect("invariant: what cannot be read is a problem"),
            memory,
            scm: scm.expect("invariant: what cannot be read is a problem"),
            queues,
        })
    }
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

/// Mirrors among the artifacts could be read as evidence.
fn readable_mirrors(entries: &Layer, memory: &Memory, scm: &Scm) -> Option<Problem> {
    let artifacts = &memory.options.artifacts_root;
    let mirrors = std::path::absolute(scm.mirrors_root(artifacts)).ok()?;
    let artifacts = std::path::absolute(artifacts).ok()?;
    let path = KeyPath::of("scm.mirrors_root");
    let origin = entries.get(&path).map(|entry| entry.origin.clone());
    let what =
        "lies in memory.artifacts_root, where agents can read it; name a folder outside of it";
    mirrors.starts_with(artifacts).then(|| Problem {
        origin,
        path,
        what: what.to_owned(),
    })
}

/// Tokens that lack something, or say something that cannot be.
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
