//! Consumption of records, with a real memory server and with the embedded backend.

use consign_testkit::OpenMemory;
use serde_json::json;

use super::{first, open_team, repository::Svn, table, texts, use_openmemory};
use crate::orders::bench::{Bench, on_both};

fn counts(bench: &Bench, arguments: &[&str]) -> [u64; 4] {
    let done = first(bench, arguments);
    assert_eq!(done["stopped"], json!(null), "{done}");
    let count = |name: &str| done[name].as_u64().unwrap();
    ["stored", "redirected", "deferred", "deduplicated"].map(count)
}

async fn kv(bench: &Bench, namespace: &str) -> serde_json::Value {
    let kv = table(bench, "logbook.kv");
    let sql = format!("SELECT value_json FROM {kv} WHERE namespace = '{namespace}'");
    let value = bench.sql().await.row(&sql).await["value_json"].clone();
    match &value {
        serde_json::Value::String(text) => serde_json::from_str(text).unwrap(),
        _ => value,
    }
}

#[test]
fn consumes_and_rewinds_with_a_real_memory_server() {
    on_both(async |mut bench| {
        let mut server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        open_team(&bench);
        let svn = Svn::new(&bench);
        svn.commit(&["first", "second", "third"]);
        bench.consign.run(["scm", "add", &svn.url()]).expect(0);
        bench.consign.run(["scm", "sync"]).expect(0);
        let watermark = kv(&bench, "scm.sync").await;
        let next = ["scm", "consume", "--limit", "1"];
        assert_eq!(counts(&bench, &next), [1, 0, 0, 0]);
        server.stop().await;
        assert_eq!(counts(&bench, &next), [0, 0, 1, 0]);
        server.restart().await;
        assert_eq!(counts(&bench, &["scm", "consume"]), [1, 0, 0, 0]);
        let cursor = json!({"last_processed_rev": 3});
        assert_eq!(kv(&bench, "gateway.consume").await, cursor);
        assert_eq!(kv(&bench, "scm.sync").await, watermark);
        assert_eq!(texts(&server).await.len(), 2);
        let flush = ["work", "--queue", "memory", "--once"];
        bench.consign.run(flush).expect(0);
        let stored = texts(&server).await;
        assert_eq!(stored.len(), 3, "{stored:#?}");

        bench
            .consign
            .run(["scm", "rewind", "1", "--to", "0", "--yes"])
            .expect(0);
        assert_eq!(kv(&bench, "gateway.consume").await["last_processed_rev"], 0);
        assert_eq!(counts(&bench, &["scm", "consume"]), [0, 0, 0, 3]);
        assert_eq!(kv(&bench, "gateway.consume").await, cursor);
        assert_eq!(texts(&server).await, stored, "nothing is stored twice");
        bench.doctor();
    });
}

#[test]
fn consumes_and_rewinds_with_the_embedded_backend() {
    on_both(async |bench| {
        open_team(&bench);
        let svn = Svn::new(&bench);
        svn.commit(&["first", "second", "third"]);
        let added = bench.consign.json(["scm", "add", svn.path()]);
        assert_eq!(
            added["provider"], "svn",
            "a folder says what it is: {added}"
        );
        bench.consign.run(["scm", "sync", svn.path()]).expect(0);
        assert_eq!(counts(&bench, &["scm", "consume"]), [3, 0, 0, 0]);
        bench
            .consign
            .run(["scm", "rewind", "1", "--to", "1", "--yes"])
            .expect(0);
        assert_eq!(counts(&bench, &["scm", "consume"]), [0, 0, 0, 2]);
        let query = ["memory", "query", "second", "--space", "team:default"];
        let found = bench.consign.run(query).expect(0).json();
        assert_eq!(found["total"], 1, "{found}");
    });
}
