//! The http adapter against a real broker process, and against things that are no brokers.

use std::{process::Command, time::Duration};

use consign_orders::{
    Adapter, BrokerFailure, BrokerLookup, ExecResult, Order, OrderRequest, OrdersOptions,
    OutgoingOrder, Reason, Rules, ServerFields, broker,
};
use consign_testkit::{HonestBroker, Step};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const KEY: &str = "desk-7/key-0001 é";

/// This very program, as the broker.
fn broker_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "http::a_broker_process", "--nocapture"]);
    command
}

/// Not a test by itself: what the broker of the tests runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_process() {
    HonestBroker::serve_if_told().await;
}

pub(crate) fn order(tags: &[String]) -> Order {
    let body = json!({
        "instrument": "USDJPY", "side": "BUY", "qty": 0.1, "tags": tags,
        "idempotency_key": "key-0001", "order_id": "o-1", "trace_id": "t-1",
        "requested_at": "2025-08-24T00:00:00Z",
    });
    let rules = Rules::default();
    let request = OrderRequest::parse(body.to_string().as_bytes(), &rules).unwrap();
    let now = "2026-11-16T00:00:00Z".parse().unwrap();
    let filled = ServerFields::new(&request, &rules, now, uuid::Uuid::nil());
    Order::new(request, filled)
}

pub(crate) fn options(url: &str) -> OrdersOptions {
    OrdersOptions {
        broker_adapter: Adapter::Http,
        broker_url: Some(url.into()),
        broker_status_url: Some(format!("{url}/{{key}}")),
        broker_api_key: Some("tulip-and-rose".to_owned().into()),
        broker_api_secret: Some("dev-secret".to_owned().into()),
        ..OrdersOptions::default()
    }
}

async fn send(
    options: &OrdersOptions,
    order: &Order,
    timeout_ms: u64,
) -> Result<ExecResult, BrokerFailure> {
    send_as(KEY, options, order, timeout_ms).await
}

pub(crate) async fn send_as(
    key: &str,
    options: &OrdersOptions,
    order: &Order,
    timeout_ms: u64,
) -> Result<ExecResult, BrokerFailure> {
    let mut headers = Map::new();
    headers.insert("traceparent".into(), Value::from("00-1-2-01"));
    headers.insert("cookie".into(), Value::from("not for brokers"));
    let outgoing = OutgoingOrder {
        order,
        key,
        timeout: Duration::from_millis(timeout_ms),
        attempt_no: 1,
        headers: &headers,
    };
    broker(options).await.unwrap().send(&outgoing).await
}

/// The broker's behaviour and the adapter's result.
#[tokio::test]
async fn each_answer_is_a_result_or_a_failure_and_certain_or_not() {
    let server = HonestBroker::start(broker_command).await;
    let options = options(&server.url());
    let table = [
        (Step::Fill, None),
        (Step::Partial("0.04".into()), None),
        (Step::Reject, None),
        (Step::Refuse(400), Some((Reason::BrokerRejected, false))),
        (Step::Refuse(401), Some((Reason::BrokerRejected, false))),
        (Step::Refuse(404), Some((Reason::BrokerDown, false))),
        (Step::Refuse(422), Some((Reason::ValidationError, false))),
        (Step::Refuse(500), Some((Reason::InternalError, true))),
        (Step::Refuse(502), Some((Reason::BrokerTimeout, true))),
        (Step::Refuse(503), Some((Reason::BrokerDown, false))),
        (Step::Refuse(504), Some((Reason::BrokerTimeout, true))),
        (Step::Refuse(307), Some((Reason::BrokerDown, false))),
        (Step::Busy(2), Some((Reason::RateLimited, false))),
        (Step::Hang, Some((Reason::BrokerTimeout, true))),
        (Step::Drop, Some((Reason::BrokerTimeout, true))),
        (Step::Garbage, Some((Reason::InternalError, true))),
    ];
    for (number, (step, expected)) in table.into_iter().enumerate() {
        let context = step.to_string();
        // A broker remembers a key's body: each step has an order of its own by its tags alone.
        let tags = vec![step.tag(), format!("number {number}")];
        let options = OrdersOptions {
            broker_idem_header: "Idempotency-Key".into(),
            ..options.clone()
        };
        let order = order(&tags);
        let key = format!("desk-7/key-{number:04}");
        let outgoing = OutgoingOrder {
            order: &order,
            key: &key,
            timeout: Duration::from_millis(400),
            attempt_no: 1,
            headers: &Map::new(),
        };
        let answer = broker(&options).await.unwrap().send(&outgoing).await;
        match expected {
            None => assert_eq!(answer.unwrap().order_id, "o-1", "{context}"),
            Some(expected) => {
                let failure = answer.unwrap_err();
                let found = (failure.reason, failure.is_uncertain);
                assert_eq!(found, expected, "{context}: {failure}");
                let wish = (failure.reason == Reason::RateLimited).then_some(2);
                assert_eq!(failure.retry_in, wish.map(Duration::from_secs), "{context}");
            }
        }
        assert_eq!(
            server.journal().tally(&key).sends,
            1,
            "{context}: the adapter never retries"
        );
    }
}

/// Such a broker would execute a repeat, so only its own answer counts: any proxy may answer
/// with a status after the order has passed.
#[tokio::test]
async fn an_answer_of_a_proxy_leaves_a_broker_without_keys_in_doubt() {
    let server = HonestBroker::start(broker_command).await;
    let without = OrdersOptions {
        broker_takes_keys: false,
        ..options(&server.url())
    };
    let table = [
        (Step::Refuse(400), Reason::BrokerRejected, false),
        (Step::Refuse(422), Reason::ValidationError, false),
        (Step::Busy(2), Reason::RateLimited, false),
        (Step::Refuse(307), Reason::BrokerDown, true),
        (Step::Refuse(404), Reason::BrokerDown, true),
        (Step::Refuse(410), Reason::BrokerDown, true),
        (Step::Refuse(425), Reason::InternalError, true),
        (Step::Refuse(500), Reason::InternalError, true),
        (Step::Refuse(503), Reason::BrokerDown, true),
    ];
    for (step, reason, is_uncertain) in table {
        let order = order(&[step.tag()]);
        let answer = send_as(&format!("desk-7/{step}"), &without, &order, 2_000).await;
        let failure = answer.unwrap_err();
        let found = (failure.reason, failure.is_uncertain);
        assert_eq!(found, (reason, is_uncertain), "{step}: {failure}");
    }
    let silent = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    for (takes_keys, is_uncertain) in [(false, true), (true, false)] {
        let options = OrdersOptions {
            broker_takes_keys: takes_keys,
            ..answering(silent, 1).await
        };
        let failure = send(&options, &order(&[]), 2_000).await.unwrap_err();
        assert_eq!(failure.is_uncertain, is_uncertain, "{failure}");
        assert!(!failure.is_from_broker, "any proxy may have sent that");
    }
    // Unreachable: certain for every broker.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = format!("http://{}/orders", listener.local_addr().unwrap());
    drop(listener);
    let nobody = OrdersOptions {
        broker_takes_keys: false,
        ..options(&gone)
    };
    let failure = send(&nobody, &order(&[]), 2_000).await.unwrap_err();
    assert!(!failure.is_uncertain, "{failure}");
}

#[tokio::test]
async fn an_order_is_signed_named_by_its_key_and_the_same_every_time() {
    let server = HonestBroker::start(broker_command).await;
    let order = order(&[]);
    let first = send(&options(&server.url()), &order, 2_000).await.unwrap();
    let second = send(&options(&server.url()), &order, 2_000).await.unwrap();
    assert_eq!(first, second, "a repeat is recognised");
    let journal = server.journal();
    let key = "desk-7/key-0001%20%C3%A9";
    let sends = journal.sends(key);
    assert_eq!(sends.len(), 2);
    assert_eq!(sends[0].1, sends[1].1);
    let (headers, body) = sends[0];
    assert!(
        body.starts_with(r#"{"idempotency_key":"key-0001","instrument":"USDJPY""#),
        "{body}"
    );
    assert!(body.contains(r#""qty":0.1,"#), "{body}");
    assert_eq!(headers["authorization"], "Bearer tulip-and-rose");
    assert_eq!(headers["traceparent"], "00-1-2-01");
    assert!(!headers.contains_key("cookie"));
    assert_eq!(headers["x-signature"].len(), 64);
    assert_ne!(headers["x-nonce"], sends[1].0["x-nonce"]);
    let base = format!(
        "POST|/orders||{body}|{}|{}",
        headers["x-timestamp"], headers["x-nonce"]
    );
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"dev-secret");
    let tag = ring::hmac::sign(&secret, base.as_bytes());
    let hex: String = tag
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(headers["x-signature"], hex);

    let asked = broker(&options(&server.url())).await.unwrap();
    assert!(asked.has_status_query());
    let BrokerLookup::Executed(result) = asked.status(key).await else {
        panic!("the broker has the order");
    };
    assert_eq!(*result, first);
    assert_eq!(
        asked.status("desk-7/unknown").await,
        BrokerLookup::NotExecuted
    );
}

/// A connection that is refused is certain: nothing was sent.
#[tokio::test]
async fn a_broker_that_is_not_there_is_down_and_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let options = options(&format!("http://{address}/orders"));
    let failure = send(&options, &order(&[]), 2_000).await.unwrap_err();
    assert_eq!(
        (failure.reason, failure.is_uncertain),
        (Reason::BrokerDown, false)
    );
    let asked = broker(&options).await.unwrap().status(KEY).await;
    assert!(matches!(asked, BrokerLookup::Unknown(_)), "{asked:?}");
}

/// Answers the next connection with this, and stays.
async fn answering(answer: &'static [u8], repeat: usize) -> OrdersOptions {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4_096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        for _ in 0..repeat {
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
        // Held open: the end of the answer is for the adapter to find out.
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    });
    options(&format!("http://{address}/orders"))
}

#[tokio::test]
async fn answers_without_an_end_are_uncertain_and_do_not_fill_the_memory() {
    let endless = b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n";
    let slow = answering(endless, 1).await;
    let failure = send(&slow, &order(&[]), 300).await.unwrap_err();
    assert_eq!(
        (failure.reason, failure.is_uncertain),
        (Reason::BrokerTimeout, true)
    );

    let flood = answering(&FLOOD, 1_000).await;
    let failure = send(&flood, &order(&[]), 10_000).await.unwrap_err();
    assert_eq!(
        (failure.reason, failure.is_uncertain),
        (Reason::InternalError, true)
    );
    assert!(failure.message.contains("longer"), "{failure}");
}

/// The beginning of an answer again and again: after the first, it is all body.
static FLOOD: [u8; 16_384] = {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 16000000\r\n\r\n";
    let mut flood = [b' '; 16_384];
    let mut at = 0;
    while at < head.len() {
        flood[at] = head[at];
        at += 1;
    }
    flood
};

#[tokio::test]
async fn a_broker_that_had_the_order_before_is_not_taken_for_one_that_refuses_it() {
    let repeat = b"HTTP/1.1 409 Conflict\r\ncontent-length: 36\r\n\r\n{\"error\":\"BROKER_ALREADY_PROCESSED\"}";
    let options = OrdersOptions {
        broker_status_url: None,
        ..answering(repeat, 1).await
    };
    let failure = send(&options, &order(&[]), 2_000).await.unwrap_err();
    assert_eq!(
        (failure.reason, failure.is_uncertain),
        (Reason::InternalError, true)
    );
}

#[tokio::test]
async fn addresses_that_make_no_sense_are_refused_without_being_shown() {
    let good = options("http://127.0.0.1:9/orders");
    let with = |change: fn(&mut OrdersOptions)| {
        let mut options = good.clone();
        change(&mut options);
        options
    };
    let table = [
        (with(|o| o.broker_url = Some("tulip".into())), "broker_url"),
        (
            with(|o| o.broker_url = Some("ftp://tulip/".into())),
            "broker_url",
        ),
        (
            with(|o| o.broker_url = Some("http://me:tulip@host/".into())),
            "broker_url",
        ),
        (
            with(|o| o.broker_status_url = Some("http://127.0.0.1:9/x".into())),
            "broker_status_url",
        ),
        (
            with(|o| o.broker_status_url = Some("http://{key}/x".into())),
            "broker_status_url",
        ),
        (
            with(|o| o.broker_status_url = Some("http://tulip/{key}".into())),
            "broker_status_url",
        ),
        (
            with(|o| o.broker_idem_header = "tulip header".into()),
            "broker_idem_header",
        ),
        (
            with(|o| o.broker_ca_file = Some("/does/not/exist".into())),
            "broker_ca_file",
        ),
    ];
    for (options, key) in table {
        let error = broker(&options).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("orders.{key}: ")), "{error}");
        assert!(!error.contains("tulip"), "{error}");
    }
    assert!(broker(&good).await.is_ok());
    let script = OrdersOptions {
        paper_script: "dance".into(),
        ..OrdersOptions::default()
    };
    let error = broker(&script).await.unwrap_err().to_string();
    assert!(error.starts_with("orders.paper_script: "), "{error}");
}
