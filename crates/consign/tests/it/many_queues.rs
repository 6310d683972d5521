//! A hundred thousand queues: what is read, scraped and shown stays small and quick.

use std::time::{Duration, Instant};

use consign_testkit::eventually;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::{
    http::{self, Answer},
    service::{SOON, Service},
    support::{Consign, migrated_database},
};

const QUEUES: usize = 100_000;
/// Of a page, in bytes: of all queues it would be over a hundred times as large.
const PAGE_MAX: usize = 512 * 1024;
/// Of an answer, on a machine that is busy with other tests.
const ANSWER_MAX: Duration = Duration::from_secs(5);

async fn quick(service: &Service, path: &str) -> Answer {
    let started = Instant::now();
    let head = format!("GET {path} HTTP/1.1\r\naccept: text/html\r\n");
    let answer = http::send(service.address(), &head, "").await.unwrap();
    let (took, size) = (started.elapsed(), answer.body.len());
    println!("{path}: {size} bytes in {took:?}");
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    assert!(took < ANSWER_MAX, "{path} took {took:?}");
    assert!(size < PAGE_MAX, "{path}: {size} bytes");
    answer
}

async fn stays_bounded(consign: &Consign) {
    consign.configure("[telemetry]\nsample_interval_ms = 500\n");
    let service = Service::serve(consign).await;
    let at = service.address();
    let messages: Vec<_> = (0..1_500)
        .map(|n| json!({"queue": format!("q{n:05}"), "payload": n}))
        .collect();
    for part in messages.chunks(500) {
        let body = json!({"messages": part}).to_string();
        let answer = http::post(at, "/v1/messages", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
    }

    let counted = r#"consign_messages{queue="_all",state="ready"} 1500"#;
    eventually("all queues are counted as one", SOON, async || {
        http::get(at, "/metrics").await.body.contains(counted)
    })
    .await;
    let metrics = quick(&service, "/metrics").await.body;
    assert!(metrics.contains("consign_queues 10000"), "{metrics}");
    assert!(!metrics.contains(r#"consign_messages{queue="q"#));
    assert!(metrics.contains(r#"consign_enqueued_total{queue="q00999"} 1"#));
    assert!(metrics.contains(r#"consign_enqueued_total{queue="_other"} 500"#));

    let overview = quick(&service, "/").await.body;
    assert!(overview.contains("after=q00"), "it goes on");
    for path in [
        "/ui/queues/q00007",
        "/ui/dead",
        "/ui/processes",
        "/ui/history",
        "/ui/audit",
    ] {
        quick(&service, path).await;
    }
    quick(&service, "/v1/queues/q99999").await;
    let mut listed = 0;
    let mut after = String::new();
    loop {
        let path = format!("/v1/queues?limit=1000{after}");
        let page = http::get(at, &path).await.json();
        listed += page["queues"].as_array().unwrap().len();
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert!(listed >= QUEUES, "{listed} in pages of a thousand");
    service.stop().await;

    let started = Instant::now();
    let ran = consign.run(["queues"]).expect(0);
    assert!(ran.stdout.lines().count() <= 1_001);
    assert!(ran.stderr.contains("--after"), "{}", ran.stderr);
    consign.run(["doctor"]).expect(0);
    assert!(started.elapsed() < 2 * ANSWER_MAX);
}

#[tokio::test]
async fn a_hundred_thousand_queues_stay_bounded_on_sqlite() {
    let consign = Consign::new();
    consign
        .sql(
            "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 99999)
             INSERT INTO queue (name, policy)
                 SELECT format('q%05d', n), (SELECT policy FROM queue WHERE name = 'default') FROM n",
        )
        .await;
    stays_bounded(&consign).await;
}

#[tokio::test]
async fn a_hundred_thousand_queues_stay_bounded_on_postgresql() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    let mut sql = PgConnection::connect(database.url()).await.unwrap();
    let queues = "INSERT INTO consign.queue (name, policy)
                      SELECT 'q' || lpad(n::text, 5, '0'), (SELECT policy FROM consign.queue WHERE name = 'default')
                          FROM generate_series(0, 99999) n";
    sqlx::raw_sql(queues).execute(&mut sql).await.unwrap();
    sql.close().await.unwrap();
    stays_bounded(&consign).await;
}
