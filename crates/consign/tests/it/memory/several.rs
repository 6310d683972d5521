//! Several gateways on one database and one memory server that does not bear two writers.

use std::time::Duration;

use consign_testkit::OpenMemory;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use super::gateway::{SPACE, texts_of, use_openmemory};
use crate::{
    http,
    orders::bench::{Kind, on_both},
    service::Service,
};

/// How many requests each gateway gets at once.
const EACH: usize = 20;
/// How long a write lock lasts that is not renewed, and some.
const LOCK: Duration = Duration::from_secs(2 + 8);

async fn store(service: &Service, text: String) -> Value {
    let at = service.address();
    let body = json!({"payload_md": text, "target_space": SPACE}).to_string();
    let answer = http::try_post(at, "/memory/store", &body).await.unwrap();
    answer.json()
}

/// Both get all of these at once; answers with what became of them.
async fn store_all(gateways: [&Service; 2], text: impl Fn(usize, usize) -> String) -> Vec<Value> {
    let mut requests = JoinSet::new();
    for n in 0..EACH {
        for (index, gateway) in gateways.iter().enumerate() {
            let at = gateway.address();
            let text = text(index, n);
            let body = json!({"payload_md": text, "target_space": SPACE}).to_string();
            requests.spawn(async move { http::post(at, "/memory/store", &body).await.json() });
        }
    }
    requests.join_all().await
}

fn deferred(answers: &[Value]) -> Vec<&Value> {
    let answers = answers.iter();
    answers.filter(|answer| answer["ok"] != true).collect()
}

#[test]
fn gateways_on_one_server_store_everything_once() {
    on_both(async |mut bench| {
        let server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        bench.configure("gateway_budget_ms = 20000\n");
        let (a, b) = (bench.serve().await, bench.serve().await);
        let same = "The crane of the harbour turns slowly.".to_owned();
        let answers = store_all([&a, &b], |_, _| same.clone()).await;
        assert_eq!(deferred(&answers), Vec::<&Value>::new());
        let names: std::collections::BTreeSet<_> = answers
            .iter()
            .map(|answer| answer["memory_id"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");

        let different = |gateway: usize, n: usize| {
            let word = (gateway * EACH + n + 1) * 7_919 * 104_729;
            format!(
                "Entry w{word:x} of the log of gateway g{gateway:x} is v{:x}.",
                word * 31
            )
        };
        let answers = store_all([&a, &b], different).await;
        assert_eq!(deferred(&answers), Vec::<&Value>::new());
        let mut texts = texts_of(&server).await;
        assert_eq!(texts.len(), 1 + 2 * EACH, "{texts:?}");
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 1 + 2 * EACH, "one of them twice");
        a.stop().await;
        b.stop().await;
    });
}

/// The holder of the write lock is killed in the middle of a write: the other process goes on when the lock expires.
#[test]
fn a_gateway_killed_under_the_write_lock_does_not_keep_the_other() {
    on_both(async |mut bench| {
        let server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        bench.configure("gateway_budget_ms = 20000\n");
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        let (mut victim, failpoint) = bench.stopped_at(&serve, "memory.after_backend").await;
        let other = bench.serve().await;
        let first = store(&victim, "The first one is never heard of.".to_owned());
        tokio::select! {
            answer = first => panic!("answered: {answer:?}"),
            () = failpoint.reached() => {}
        }
        let since = Instant::now();
        let second = async {
            let answer = store(&other, "The second one waits for the lock.".to_owned()).await;
            (answer, since.elapsed())
        };
        let ((answer, took), ()) = tokio::join!(second, async { victim.child.kill9() });
        assert_eq!(answer["action"], "allow", "{answer}");
        assert!(took < LOCK, "{took:?}");
        other.stop().await;
        // A process that ends releases its write lock.
        let table = match bench.kind {
            Kind::Postgres => "logbook.write_lock",
            Kind::Sqlite => "memory_write_lock",
        };
        let sql = format!("SELECT coalesce(holder, 'nobody') AS holder FROM {table}");
        assert_eq!(bench.sql().await.row(&sql).await["holder"], "nobody");
    });
}

/// Doctor goes by the settings where they say how long an audit may be pending.
#[test]
fn doctor_uses_the_configured_time_of_pending_audits() {
    on_both(async |mut bench| {
        let (table, time) = match bench.kind {
            Kind::Postgres => ("governance.write_audit", "now() - interval '3 hours'"),
            Kind::Sqlite => ("write_audit", "(unixepoch() - 10800) * 1000000"),
        };
        let sql = format!(
            "INSERT INTO {table} (created_at, target_space, action, correlation_id, status) \
             VALUES ({time}, 'team:p', 'allow', 'corr-0123456789abcdef', 'pending')"
        );
        bench.sql().await.run(&sql).await;
        let told = bench.consign.run(["doctor"]).expect(1);
        assert!(
            told.stdout.contains("memory_audit_hanging"),
            "{}",
            told.stdout
        );
        bench.configure("[memory]\npending_audit_timeout_seconds = 14400\n");
        bench.consign.run(["doctor"]).expect(0);
        let older = sql
            .replace("cdef'", "cdee'")
            .replace("3 hours", "5 hours")
            .replace("10800", "18000");
        bench.sql().await.run(&older).await;
        let told = bench.consign.run(["doctor"]).expect(1);
        assert!(told.stdout.contains("over 14400 s"), "{}", told.stdout);
    });
}
