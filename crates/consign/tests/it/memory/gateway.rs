//! A gateway over the bench's database, and a real memory server behind it.

use consign_testkit::{OpenMemory, eventually};
use serde_json::{Value, json};

use crate::{
    http::{self, Answer},
    orders::bench::{Bench, Kind},
    service::{SOON, Service},
};

pub(crate) const SPACE: &str = "private:alice";
pub(crate) const TEXT: &str = "The valve of the third pump opens clockwise.";

/// Sends memories to this server, and everything short.
pub(crate) fn use_openmemory(bench: &mut Bench, server: &OpenMemory) {
    bench.configure(&format!(
        "[memory]\nopenmemory_base_url = {:?}\nopenmemory_api_key = {:?}\n\
         openmemory_timeout_seconds = 2\nlease_seconds = 12\nbase_backoff_seconds = 1\n\
         max_backoff_seconds = 2\nreconcile_interval_seconds = 0\n",
        server.url(),
        OpenMemory::KEY,
    ));
}

fn body() -> String {
    json!({"payload_md": TEXT, "target_space": SPACE}).to_string()
}

/// Asks for the memory to be stored; nobody may answer.
pub(crate) async fn try_store(service: &Service) -> std::io::Result<Answer> {
    http::try_post(service.address(), "/memory/store", &body()).await
}

/// Asks for the memory to be stored.
pub(crate) async fn store(service: &Service) -> Value {
    let answer = try_store(service).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}\n{}", service.log());
    answer.json()
}

/// How often the server has the memory.
pub(crate) async fn copies(server: &OpenMemory) -> usize {
    let texts = texts_of(server).await;
    texts.iter().filter(|text| *text == TEXT).count()
}

/// What the server has.
pub(crate) async fn texts_of(server: &OpenMemory) -> Vec<String> {
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
    items
        .map(|item| item["content"].as_str().unwrap().to_owned())
        .collect()
}

/// The audits: reason and status, oldest first.
pub(crate) async fn audits(bench: &Bench) -> Vec<(String, String)> {
    let sql = format!(
        "SELECT reason, status FROM {} ORDER BY audit_id",
        table(bench)
    );
    let rows = bench.sql().await.rows(&sql).await;
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| (text(row, "reason"), text(row, "status")))
        .collect()
}

/// Lets three hours pass for audits that are pending, past what guards them.
pub(crate) async fn age_pending_audits(bench: &Bench) {
    let mut sql = bench.sql().await;
    match bench.kind {
        Kind::Postgres => {
            sql.run(
                "ALTER TABLE governance.write_audit DISABLE TRIGGER final_is_final; \
                 UPDATE governance.write_audit SET created_at = created_at - interval '3 hours' \
                 WHERE status = 'pending'; \
                 ALTER TABLE governance.write_audit ENABLE TRIGGER final_is_final",
            )
            .await;
        }
        Kind::Sqlite => {
            let guard = "SELECT sql FROM sqlite_master WHERE name = 'write_audit_update'";
            let guard = sql.row(guard).await["sql"].as_str().unwrap().to_owned();
            sql.run("DROP TRIGGER write_audit_update").await;
            sql.run(
                "UPDATE write_audit SET created_at = created_at - 10800000000 \
                 WHERE status = 'pending'",
            )
            .await;
            sql.run(&guard).await;
        }
    }
}

fn table(bench: &Bench) -> &'static str {
    match bench.kind {
        Kind::Sqlite => "write_audit",
        Kind::Postgres => "governance.write_audit",
    }
}

/// The only row of the outbox.
pub(crate) fn row(bench: &Bench) -> Value {
    let rows = bench.consign.json(["memory", "ls"]);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

/// Waits until the only row of the outbox is sent, and answers with it.
pub(crate) async fn is_sent(bench: &Bench) -> Value {
    let what = format!("the memory is sent on {:?}", bench.kind);
    // A lease may have to run out first.
    eventually(&what, 3 * SOON, async || row(bench)["status"] == "sent").await;
    row(bench)
}

/// What is left is repaired, and nothing is left then.
pub(crate) async fn ends_well(bench: &Bench, server: &OpenMemory) {
    age_pending_audits(bench).await;
    bench.consign.run(["reconcile"]).expect(0);
    let left = audits(bench).await;
    assert!(
        left.iter().all(|(_, status)| status != "pending"),
        "{left:?}"
    );
    bench.consign.run(["reconcile", "--report"]).expect(0);
    assert_eq!(audits(bench).await, left, "a second look changes nothing");
    assert_eq!(copies(server).await, 1, "{:?}", bench.kind);
    bench.doctor();
}
