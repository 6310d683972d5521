//! Orders as operators see them: from nothing, by command, by signal, and with few rights.

use consign_testkit::eventually;
use serde_json::{Value, json};
use sqlx::Connection;

use crate::{
    http::{self, Answer},
    roles::Login,
    service::{SOON, Service},
    support::{Consign, migrated_database},
};

fn order(key: &str, tags: &str) -> String {
    format!(
        r#"{{"instrument": "USDJPY", "side": "BUY", "qty": 0.1, "tags": [{tags}],
            "idempotency_key": "{key}"}}"#
    )
}

async fn place(service: &Service, key: &str, tags: &str, prefer: &str) -> Answer {
    let body = order(key, tags);
    let head = format!(
        "POST /do/order HTTP/1.1\r\ncontent-type: application/json\r\nidempotency-key: {key}\r\n\
         {prefer}content-length: {}\r\n",
        body.len()
    );
    http::send(service.address(), &head, &body).await.unwrap()
}

const WAIT: &str = "prefer: wait=20\r\n";

/// Makes every key past its time.
async fn age(consign: &Consign) {
    let url = consign.database();
    if url.starts_with("sqlite:") {
        consign.sql("UPDATE idempo_ledger SET expires_at = 0").await;
        return;
    }
    let mut connection = sqlx::PgConnection::connect(url).await.unwrap();
    let past = "UPDATE consign.idempo_ledger SET expires_at = now() - interval '1 hour'";
    sqlx::raw_sql(past).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// From no configuration to an executed order, and every command about orders on the way.
async fn walk(consign: &Consign) {
    let service = Service::serve(consign).await;
    let done = place(&service, "order-done", "", WAIT).await;
    assert_eq!(done.status, 201, "{done:?}");
    assert_eq!(done.json()["status"], "ok", "{done:?}");
    let state = http::get(service.address(), "/do/order/order-done").await;
    assert_eq!(state.json()["status"], "succeeded", "{state:?}");
    let gone = place(&service, "order-gone", "\"paper:rejected=1\"", WAIT).await;
    assert_eq!(gone.status, 400, "{gone:?}");
    consign.run(["pause", "orders"]).expect(0);
    let open = place(&service, "order-open", "", "").await;
    assert_eq!(open.status, 201, "{open:?}");

    listed(consign);
    shown(consign);
    requeued(consign).await;
    purged(consign).await;
    service.stop().await;
    consign.run(["doctor"]).expect(0);
}

fn keys(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| item["idempotency_key"].as_str().unwrap())
        .collect()
}

fn listed(consign: &Consign) {
    let all = consign.json(["orders", "ls"]);
    assert_eq!(keys(&all), ["order-open", "order-gone", "order-done"]);
    assert_eq!(all["next"], json!(null));
    let failed = consign.json(["orders", "ls", "--status", "failed"]);
    assert_eq!(keys(&failed), ["order-gone"]);
    assert_eq!(failed["items"][0]["http_status"], 400);
    let others = consign.run(["orders", "ls", "--client", "shop"]).expect(0);
    assert_eq!(
        (others.stdout.as_str(), others.stderr.as_str()),
        ("", "no orders match\n")
    );
    let mut before: Option<String> = None;
    let mut seen = Vec::new();
    loop {
        let mut arguments = vec!["orders", "ls", "--limit", "1", "--json"];
        arguments.extend(before.as_deref().map(|_| "--before"));
        arguments.extend(before.as_deref());
        let page = consign.run(arguments).expect(0).json();
        seen.extend(keys(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => before = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(seen, keys(&all), "page by page");
    let table = consign.run(["orders", "ls"]).expect(0).stdout;
    assert!(table.starts_with("outbox  client  key"), "{table}");
    consign
        .run(["orders", "ls", "--status", "aborted"])
        .expect(2);
}

fn shown(consign: &Consign) {
    let shown = consign.json(["orders", "show", "local/order-gone"]);
    let order = &shown["order"];
    assert_eq!(
        (&order["status"], &order["conflicts"]),
        (&json!("failed"), &json!(0))
    );
    assert_eq!(order["response"]["reason_code"], "BROKER_REJECTED");
    assert_eq!(shown["state"]["state"], "dead");
    assert_eq!(shown["attempts"][0]["code"], "BROKER_REJECTED");
    assert!(
        shown["attempts"][0].get("token").is_none(),
        "a token is a permission"
    );
    let id = order["outbox_id"].to_string();
    assert_eq!(consign.json(["orders", "show", &id]), shown);
    let text = consign
        .run(["orders", "show", "local/order-done"])
        .expect(0)
        .stdout;
    assert!(text.contains("status      succeeded (HTTP 200)"), "{text}");
    assert!(text.contains("\"executed_qty\":0.1,"), "{text}");
    for unknown in ["local/order-nowhere", "shop/order-done", "99"] {
        let ran = consign.run(["orders", "show", unknown, "--json"]).expect(4);
        assert_eq!(ran.error().0, "no_such_order", "{unknown}");
    }
    consign.run(["orders", "show", "order-done"]).expect(2);
}

async fn requeued(consign: &Consign) {
    let refused = |which: &str, exit: i32, why: &str| {
        let ran = consign.run(["orders", "requeue", which]).expect(exit);
        assert!(ran.stdout.contains(why), "{ran:#?}");
    };
    refused("local/order-done", 1, "the broker executed it");
    refused("local/order-open", 1, "it is not finished (ready)");
    refused("local/order-nowhere", 4, "the order does not exist");
    let both = [
        "orders",
        "requeue",
        "local/order-gone",
        "local/order-open",
        "--dry-run",
    ];
    let dry = consign
        .run(both.into_iter().chain(["--json"]))
        .expect(1)
        .json();
    assert_eq!(dry["orders"][0]["why"], "would be requeued", "{dry}");
    let status = || consign.json(["orders", "show", "local/order-gone"])["order"]["status"].clone();
    assert_eq!(status(), "failed", "nothing was changed");
    let arguments = ["orders", "requeue", "local/order-gone", "--reason", "again"];
    let ran = consign.run(arguments).expect(0);
    assert_eq!(ran.stdout, "local/order-gone: requeued\n");
    assert_eq!(status(), "accepted");
    refused("local/order-gone", 1, "only aborted orders can be requeued");
    consign.run(["resume", "orders"]).expect(0);
    eventually("it is sent again", SOON, async || status() == "succeeded").await;
    let shown = consign.json(["orders", "show", "local/order-gone"]);
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 2, "{shown}");
}

async fn purged(consign: &Consign) {
    let open = || consign.json(["orders", "ls", "--status", "accepted"]);
    eventually("all are done", SOON, async || keys(&open()).is_empty()).await;
    assert_eq!(
        consign.json(["orders", "purge", "--yes"])["succeeded"],
        0,
        "not past their time"
    );
    age(consign).await;
    let preview = consign.json(["orders", "purge"]);
    assert_eq!(
        (&preview["dry_run"], &preview["succeeded"]),
        (&json!(true), &json!(3))
    );
    let text = consign
        .run(["orders", "purge", "--yes", "--dry-run"])
        .expect(0)
        .stdout;
    assert!(
        text.contains("3 keys would be removed. Nothing was changed"),
        "{text}"
    );
    assert_eq!(keys(&consign.json(["orders", "ls"])).len(), 3);
    let purged = consign.json(["orders", "purge", "--yes", "--reason", "tidy"]);
    assert_eq!(
        (&purged["dry_run"], &purged["succeeded"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(keys(&consign.json(["orders", "ls"])).len(), 0);
}

#[tokio::test]
async fn orders_work_from_nothing_on_sqlite_and_every_command_about_them() {
    walk(&Consign::new()).await;
}

#[tokio::test]
async fn orders_work_from_nothing_on_postgresql_and_every_command_about_them() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    walk(&consign).await;
}

#[tokio::test]
async fn the_policy_of_orders_changes_by_signal_and_the_rest_is_named() {
    let consign = Consign::new();
    consign.configure("[orders]\nOUTBOX_CONCURRENCY = 3\n");
    let service = Service::serve(&consign).await;
    let policy = || consign.json(["queues", "show", "orders"])["policy"].clone();
    assert_eq!(
        (&policy()["concurrency"], &policy()["attempts_max"]),
        (&json!(3), &json!(6))
    );
    assert_eq!(policy()["record_begin"], true);
    consign.configure("[orders]\noutbox_concurrency = 5\nrl_burst = 7\n");
    service.signal("HUP");
    service.logs("policy set for orders").await;
    service
        .logs("these changes need a restart: orders.rl_burst")
        .await;
    assert_eq!(policy()["concurrency"], 5);
    service.stop().await;
}

#[test]
fn impossible_orders_are_refused_before_anything_is_touched() {
    let consign = Consign::unmigrated();
    consign.configure("[orders]\nbroker_adapter = \"http\"\n");
    for command in [&["config", "check"][..], &["serve"], &["work"]] {
        let ran = consign
            .run(command.iter().copied().chain(["--json"]))
            .expect(2);
        let (code, message) = ran.error();
        assert_eq!(code, "config", "{message}");
        assert!(message.contains("orders.broker_url"), "{message}");
    }
    consign.configure("[queues.orders.sink]\nkind = \"discard\"\n");
    let ran = consign.run(["config", "check", "--json"]).expect(2);
    let (_, message) = ran.error();
    assert!(
        message.contains("consign.toml:1: queues.orders"),
        "{message}"
    );
    assert!(message.contains("orders.enabled = false"), "{message}");
    consign.configure("[orders]\nbroker_adapter = \"http\"\nbroker_url = \"ftp://x\"\n");
    consign.run(["config", "check"]).expect(2);
    consign
        .configure("[orders]\nbroker_adapter = \"http\"\nbroker_url = \"http://127.0.0.1:1/o\"\n");
    consign.run(["config", "check"]).expect(0);
    assert!(!consign.folder().join("test.db").exists());
}

/// By any way: a message that is no order would be sent never, or twice.
#[tokio::test]
async fn the_queue_of_orders_takes_nothing_else() {
    let consign = Consign::new();
    consign.configure("[orders]\nenabled = false\n[queues.orders.sink]\nkind = \"discard\"\n");
    let service = Service::serve(&consign).await;
    let refused = place(&service, "order-0001", "", "").await;
    assert_eq!(
        (refused.status, &refused.json()["error"]),
        (404, &json!("NOT_FOUND"))
    );
    let body = r#"{"payload": 1}"#;
    let answer = http::post(service.address(), "/v1/queues/orders/messages", body).await;
    assert_eq!(answer.json()["code"], "invalid_input", "{answer:?}");
    assert!(answer.body.contains("takes orders only"), "{answer:?}");
    let ran = consign
        .run(["enqueue", "--queue", "orders", "1", "--json"])
        .expect(3);
    let (code, message) = ran.error();
    assert_eq!(code, "invalid_input", "{message}");
    assert!(
        message.contains("takes orders only. Use POST /do/order"),
        "{message}"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_worker_sends_orders_with_its_roles_alone() {
    let database = migrated_database().await;
    let owner = Consign::at(database.url());
    let login = Login::make(&database, "consign_worker").await;
    let consign = Consign::at(&login.url());
    consign.configure("[queues.a.sink]\nkind = \"discard\"\n");
    owner.run(["queues", "set", "a"]).expect(0);
    let service = Service::work(&consign, &[]).await;
    let told = "the app orders is not served: that needs the role consign_order_server";
    service.logs(told).await;
    service.stop().await;
    login.grant("consign_order_server").await;
    let service = Service::work(&consign, &[]).await;
    service.logs("creating it needs the role").await;
    service.stop().await;

    let server = Service::serve(&owner).await;
    owner.run(["pause", "orders"]).expect(0);
    assert_eq!(place(&server, "order-0001", "", "").await.status, 201);
    server.stop().await;
    consign.configure("");
    let service = Service::work(&consign, &["--queue", "orders"]).await;
    owner.run(["resume", "orders"]).expect(0);
    let status = || owner.json(["orders", "show", "local/order-0001"])["order"]["status"].clone();
    eventually("it is sent", SOON, async || status() == "succeeded").await;
    service.stop().await;

    consign.configure("[orders]\noutbox_concurrency = 9\n");
    let ran = consign.run(["work"]).expect(5);
    assert!(
        ran.stderr.contains("queue orders differs from [orders]"),
        "{ran:#?}"
    );
    assert!(ran.stderr.contains("consign_operator"), "{ran:#?}");
    login.remove().await;
}
