//! Repositories, from their history to memories: real repositories, real processes, killed for real, on
//! both stores.

mod cli;
mod consume;
mod gitlab;
mod kills;
mod repository;
mod rounds;
mod standing;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use consign_testkit::{OpenMemory, eventually};
use serde_json::Value;

use crate::{
    http,
    orders::bench::{Bench, Kind},
    service::Service,
};

/// Generous: a busy machine must not fail a test.
const SOON: Duration = Duration::from_secs(40);

/// Opens the team to facts.
fn open_team(bench: &Bench) {
    let policy = r#"{"team_write_enabled": true, "policy_json": {"allowed_kinds": ["FACT"]}}"#;
    let call = ["memory", "call", "governance_update", policy];
    bench.consign.run(call).expect(0);
}

/// Sends memories to this server, and everything short.
fn use_openmemory(bench: &mut Bench, server: &OpenMemory) {
    bench.configure(&format!(
        "[memory]\nopenmemory_base_url = {:?}\nopenmemory_api_key = {:?}\n\
         openmemory_timeout_seconds = 2\nlease_seconds = 12\nbase_backoff_seconds = 1\n\
         max_backoff_seconds = 2\nreconcile_interval_seconds = 0\n\
         gateway_budget_ms = 15000\n",
        server.url(),
        OpenMemory::KEY,
    ));
}

/// What a command says about its first repository.
fn first(bench: &Bench, arguments: &[&str]) -> Value {
    let all = bench.consign.json(arguments.iter().copied());
    all["items"][0].clone()
}

/// Runs a command until it comes to a point, and kills it there.
async fn killed_at(bench: &Bench, arguments: &[&str], point: &str) {
    let file = failpoint_file(bench);
    let mut victim = Service::launch(&bench.consign, arguments, |command| {
        command
            .env("CONSIGN_FAILPOINT", point)
            .env("CONSIGN_FAILPOINT_FILE", &file);
    });
    eventually(point, SOON, async || file.exists()).await;
    victim.child.kill9();
}

fn failpoint_file(bench: &Bench) -> PathBuf {
    // Files of the database come and go, so the folder's size names nothing.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    bench
        .consign
        .folder()
        .join(format!("failpoint-at-{number}"))
}

/// A table's name in this store.
fn table(bench: &Bench, name: &str) -> String {
    match (bench.kind, name.split_once('.')) {
        (Kind::Sqlite, Some(("scm", name))) => format!("scm_{name}"),
        (Kind::Sqlite, Some((_, name))) => name.to_owned(),
        _ => name.to_owned(),
    }
}

/// Commits as they are written down, in the order of their positions.
async fn commits(bench: &Bench) -> Vec<String> {
    let commits = table(bench, "scm.git_commits");
    let sql = format!("SELECT commit_sha FROM {commits} ORDER BY git_commit_id");
    let rows = bench.sql().await.rows(&sql).await;
    let sha = |row: &Value| row["commit_sha"].as_str().unwrap().to_owned();
    rows.iter().map(sha).collect()
}

/// The cards that a memory server has.
async fn texts(server: &OpenMemory) -> Vec<String> {
    let at = server.url().trim_start_matches("http://").parse().unwrap();
    // In the old version of HTTP answers come in one piece.
    let head = format!(
        "GET /memory/all?l=1000 HTTP/1.0\r\nx-api-key: {}\r\n",
        OpenMemory::KEY
    );
    let answer = http::send(at, &head, "").await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let all = answer.json();
    let items = all["items"].as_array().unwrap().iter();
    let mut texts: Vec<String> = items
        .map(|item| item["content"].as_str().unwrap().to_owned())
        .collect();
    // A look at the server leaves a text of its own behind if it is cut off.
    texts.retain(|text| text.starts_with("[Kind]"));
    texts.sort();
    texts
}
