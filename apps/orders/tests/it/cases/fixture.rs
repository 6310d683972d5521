//! The queue `orders` with a ledger beside it: what every case needs.

use std::{str::FromStr, sync::Arc, time::Duration};

use consign_conformance::stage::{Stage, ids, policy, queue};
use consign_kernel::{Lease, MessageId, OnUncertain, Outcome, QueuePolicy, Report, StateKind};
use consign_orders::{
    AcceptResult, Client, FinalResult, Ledger, LedgerEntry, LedgerStatus, NewOrder, OrderKey,
    OrderRequest, QUEUE, Rules, ServerFields, StoredOrder,
};
use serde_json::{Map, json};
use uuid::Uuid;

use super::LedgerHarness;

/// How long keys are remembered on every fixture.
pub(crate) const TTL: Duration = Duration::from_secs(48 * 3_600);

/// A fresh store with the queue `orders`: leases of 10 s, three tries, rests of 1 s and then 2 s.
pub(crate) struct OrdersFixture<'a> {
    pub(crate) stage: Stage<'a>,
    pub(crate) ledger: Arc<dyn Ledger>,
}

/// The compared fields of an order's row.
pub(crate) type OrderSummary = (LedgerStatus, u16, Option<String>);

pub(crate) fn client(name: &str) -> Client {
    Client::from_str(name).expect("a plain name")
}

pub(crate) fn key(name: &str) -> OrderKey {
    OrderKey::from_str(name).expect("a plain key")
}

/// The digest of a body, for tests: it starts with the body's first bytes.
pub(crate) fn digest(body: &str) -> String {
    let hex: String = body.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex:0<64}")
}

/// An order of one client.
pub(crate) fn order_of(name: &str, of: &str, body: &str) -> NewOrder {
    let payload = json!({
        "client": name,
        "idempotency_key": of,
        "request_digest": digest(body),
        "order": {
            "order_id": "ord-1",
            "instrument": "USDJPY",
            "side": "BUY",
            "requested_at": "2027-01-15T07:59:59Z",
            "trace_id": "trace-1",
        },
        "body": body,
    });
    NewOrder {
        client: client(name),
        key: key(of),
        request_digest: digest(body),
        payload,
        headers: Map::new(),
        ttl: TTL,
        max_age: None,
    }
}

/// An order of the usual client with a body of its own.
pub(crate) fn order(of: &str) -> NewOrder {
    order_of("desk-1", of, of)
}

/// The same key with another body.
pub(crate) fn twisted(order: &NewOrder) -> NewOrder {
    order_of(order.client.as_str(), order.key.as_str(), "another body")
}

/// An end with a body in a form that no parser would print again: spaces, order and digits count.
pub(crate) fn ended(http_status: u16, word: &str) -> FinalResult {
    FinalResult {
        http_status,
        result_digest: digest(word),
        exec_result: format!(
            r#"{{"status": "{word}", "executed_qty":0.10,  "avg_price": 146.12520, "a": 1e2}}"#
        ),
    }
}

/// A report as the order sink makes it.
pub(crate) fn report(id: MessageId, outcome: Outcome, code: &str, ended: &FinalResult) -> Report {
    Report {
        code: Some(code.to_owned()),
        result: Some(serde_json::to_value(ended).expect("an end is a document")),
        ..Report::new(id, outcome)
    }
}

pub(crate) fn is_new(answer: &AcceptResult) -> bool {
    matches!(answer, AcceptResult::New(_))
}

pub(crate) fn is_same(answer: &AcceptResult) -> bool {
    matches!(answer, AcceptResult::Same(_))
}

pub(crate) fn is_conflict(answer: &AcceptResult) -> bool {
    matches!(answer, AcceptResult::Conflict(_))
}

impl OrdersFixture<'_> {
    /// Accepts an order whose send ended with an uncertain outcome: held.
    pub(crate) async fn in_doubt(&self, order: &NewOrder) -> MessageId {
        let id = self.enter(order).await;
        let unsure = ended(504, "error");
        self.settle(id, Outcome::Uncertain, "BROKER_TIMEOUT", &unsure)
            .await;
        assert_eq!(self.stage.kind(id).await, StateKind::Held);
        assert_eq!(
            self.glance(order).await,
            (LedgerStatus::Accepted, 201, None)
        );
        id
    }
}

impl<'a> OrdersFixture<'a> {
    pub(crate) async fn new(harness: &'a dyn LedgerHarness) -> Self {
        Self::with(harness, policy()).await
    }

    pub(crate) async fn with(harness: &'a dyn LedgerHarness, rules: QueuePolicy) -> Self {
        let stage = Stage {
            harness,
            store: harness.store(),
            queue: queue(QUEUE),
        };
        stage.add_queue(QUEUE, &rules).await;
        let ledger = harness.ledger();
        Self { stage, ledger }
    }

    pub(crate) async fn accept(&self, orders: &[NewOrder]) -> Vec<AcceptResult> {
        let answers = self.ledger.accept(orders).await.expect("accept answers");
        assert_eq!(answers.len(), orders.len(), "an answer per order");
        answers
    }

    pub(crate) async fn accept_one(&self, order: &NewOrder) -> AcceptResult {
        let mut answers = self.accept(std::slice::from_ref(order)).await;
        answers.remove(0)
    }

    /// Accepts an order that must be new; answers with its message.
    pub(crate) async fn enter(&self, order: &NewOrder) -> MessageId {
        let answer = self.accept_one(order).await;
        assert!(is_new(&answer), "new: {answer:?}");
        answer.entry().outbox_id.expect("a message")
    }

    pub(crate) async fn entry(&self, order: &NewOrder) -> LedgerEntry {
        let entry = self.ledger.entry(&order.client, &order.key).await;
        entry.expect("entry answers").expect("the key has a row")
    }

    /// Status, HTTP status and body of an order.
    pub(crate) async fn glance(&self, order: &NewOrder) -> OrderSummary {
        let entry = self.entry(order).await;
        (entry.status, entry.http_status, entry.response)
    }

    /// Claims the only order that is due.
    pub(crate) async fn claim(&self, id: MessageId) -> Lease {
        let lease = self.stage.claim(10).await;
        assert_eq!(ids(&lease), [id], "the only one due");
        lease
    }

    /// Claims the only order that is due and settles it.
    pub(crate) async fn settle(
        &self,
        id: MessageId,
        outcome: Outcome,
        code: &str,
        ended: &FinalResult,
    ) {
        let lease = self.claim(id).await;
        let report = report(id, outcome, code, ended);
        let answer = self.stage.settle(&lease, &[report]).await;
        consign_conformance::stage::settled(answer);
    }

    /// An order that was executed.
    pub(crate) async fn succeeded(&self, of: &str) -> NewOrder {
        let order = order(of);
        let id = self.enter(&order).await;
        self.settle(id, Outcome::Delivered, "EXECUTED", &ended(200, "ok"))
            .await;
        order
    }

    /// An order that was rejected.
    pub(crate) async fn failed(&self, of: &str) -> NewOrder {
        let order = order(of);
        let id = self.enter(&order).await;
        let rejected = ended(400, "error");
        self.settle(id, Outcome::Dead, "BROKER_REJECTED", &rejected)
            .await;
        order
    }

    /// How many messages the queue has, finished ones too.
    pub(crate) async fn message_count(&self) -> usize {
        let filter = consign_kernel::Filter {
            queue: Some(queue(QUEUE)),
            ..consign_kernel::Filter::default()
        };
        let page = self.stage.store.list(&filter, None, 1_000).await;
        page.expect("list answers").items.len()
    }
}

/// A queue that holds what is in doubt.
pub(crate) fn holding() -> QueuePolicy {
    QueuePolicy {
        on_uncertain: OnUncertain::Hold,
        ..policy()
    }
}

/// An order as the service makes one: what it stores can be read again. `more` goes into the body.
pub(crate) fn real_order(of: &str, more: &str) -> NewOrder {
    let body = format!(
        r#"{{"instrument":"USDJPY","side":"BUY","qty":0.1049,"idempotency_key":"{of}","order_id":"ord-é"{more}}}"#
    );
    let rules = Rules::default();
    let request = OrderRequest::parse(body.as_bytes(), &rules).expect("a good request");
    let at = "2027-01-15T07:59:59Z".parse().expect("a time");
    let filled = ServerFields::new(&request, &rules, at, Uuid::nil());
    let stored = StoredOrder::new(client("desk-1"), &request, filled, &body);
    NewOrder {
        request_digest: request.digest.clone(),
        payload: stored.to_payload(),
        ..order_of("desk-1", of, &body)
    }
}
