//! Alerts of a real service: from a sink that fails to the receiver of the alerts.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Json, Router, extract::State, http::StatusCode};
use consign_kernel::Alert;
use consign_testkit::eventually;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    http,
    receiver::{Receiver, ReplyMode},
    service::{SOON, Service, fill},
    support::{Consign, migrated_database},
};

/// How long after an alert the next one may come.
const INTERVAL_MS: i64 = 3_000;

/// Where alerts are posted to.
struct Inbox {
    address: SocketAddr,
    alerts: Arc<Mutex<Vec<Alert>>>,
    task: JoinHandle<()>,
}

impl Inbox {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let alerts: Arc<Mutex<Vec<Alert>>> = Arc::default();
        let router = Router::new().fallback(take).with_state(Arc::clone(&alerts));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            alerts,
            task,
        }
    }

    fn alerts(&self) -> Vec<Alert> {
        self.alerts.lock().unwrap().clone()
    }

    /// How many deaths the alerts so far stand for.
    fn deaths(&self) -> u64 {
        self.alerts().iter().map(|alert| alert.count).sum()
    }

    /// The configuration of a service that delivers `mail` to a receiver, and its alerts here.
    fn configuration(&self, receiver: &Receiver) -> String {
        let (sink, address) = (receiver.sink(), self.address);
        format!(
            "[queues.mail]\nalert_queue = \"ops\"\nalert_interval_ms = {INTERVAL_MS}\n\
             [queues.mail.sink]\n{sink}\
             [queues.ops.sink]\nkind = \"http\"\nurl = \"http://{address}/\"\nallow = [\"127.0.0.1\"]\n"
        )
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(alerts): State<Arc<Mutex<Vec<Alert>>>>, Json(body): Json<Value>) -> StatusCode {
    alerts
        .lock()
        .unwrap()
        .push(serde_json::from_value(body).unwrap());
    StatusCode::OK
}

/// 500 messages die; their alerts come an interval apart, and their numbers add up.
async fn deaths_add_up(consign: Consign) {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let inbox = Inbox::start().await;
    consign.configure(&inbox.configuration(&receiver));
    let service = Service::work(&consign, &[]).await;
    fill(&consign, "mail", 1);
    eventually("the first is alerted", SOON, async || inbox.deaths() == 1).await;
    fill(&consign, "mail", 499);
    eventually("all are alerted", SOON, async || inbox.deaths() == 500).await;

    let alerts = inbox.alerts();
    assert!(alerts.len() >= 2, "{alerts:?}");
    for alert in &alerts {
        assert_eq!(alert.queue.as_str(), "mail");
        assert_eq!(alert.code.as_deref(), Some("http_400"));
    }
    let listed = consign.json(["ls", "--queue", "ops"]);
    let mut times: Vec<Timestamp> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["created_at"].as_str().unwrap().parse().unwrap())
        .collect();
    times.sort_unstable();
    assert_eq!(times.len(), alerts.len(), "each was delivered once");
    for pair in times.windows(2) {
        let apart = pair[1].duration_since(pair[0]);
        assert!(
            apart >= SignedDuration::from_millis(INTERVAL_MS),
            "{times:?}"
        );
    }
    let metrics = http::get(service.address(), "/metrics").await.body;
    let count = alerts.len();
    let line = format!("consign_alerts_total{{queue=\"mail\",reason=\"died\"}} {count}");
    assert!(metrics.contains(&line), "{line}: {metrics}");
    service.stop().await;
    consign.run(["doctor"]).expect(0);
}

#[tokio::test]
async fn alerts_stand_for_all_deaths_of_a_service() {
    deaths_add_up(Consign::new()).await;
}

#[tokio::test]
async fn alerts_stand_for_all_deaths_of_a_service_on_postgresql() {
    let database = migrated_database().await;
    deaths_add_up(Consign::at(database.url())).await;
}

#[tokio::test]
async fn a_service_alerts_an_open_breaker_and_an_old_queue() {
    let receiver = Receiver::start(ReplyMode::Refuses).await;
    let inbox = Inbox::start().await;
    let consign = Consign::new();
    consign.configure(&inbox.configuration(&receiver));
    let service = Service::work(&consign, &[]).await;
    fill(&consign, "mail", 50);
    let has = |reason: &str, code: Option<&str>| {
        let is_it = |it: &Alert| it.reason.as_str() == reason && it.code.as_deref() == code;
        inbox.alerts().iter().any(is_it)
    };
    eventually("the breaker is alerted", SOON, async || {
        has("breaker_open", Some("http_500"))
    })
    .await;
    // A policy changes without a restart.
    let age = ["queues", "set", "mail", "--alert-age", "1ms"];
    consign.run(age).expect(0);
    eventually("the age is alerted", SOON, async || has("queue_old", None)).await;
    let none = [
        "queues",
        "set",
        "mail",
        "--alert-queue",
        "none",
        "--alert-age",
        "none",
    ];
    consign.run(none).expect(0);
    service.stop().await;
}

#[test]
fn a_queue_that_cannot_take_alerts_is_named() {
    let consign = Consign::new();
    let missing = ["queues", "set", "mail", "--alert-queue", "ops", "--json"];
    let (code, message) = consign.run(missing).expect(3).error();
    assert_eq!(code, "invalid_input");
    assert!(
        message.contains("alert_queue: is ops; must exist"),
        "{message}"
    );
    consign.run(["queues", "set", "ops"]).expect(0);
    let interval = ["--alert-interval", "10m", "--alert-age", "90s"];
    let set = ["queues", "set", "mail", "--alert-queue", "ops"];
    let set = consign.json(set.into_iter().chain(interval));
    let policy = &set["policy"];
    assert_eq!(policy["alert_queue"], "ops");
    assert_eq!(policy["alert_interval_ms"], 600_000);
    assert_eq!(policy["alert_age_ms"], 90_000);
    let app = ["queues", "set", "mail", "--alert-queue", "orders", "--json"];
    consign.run(app).expect(3);
}
