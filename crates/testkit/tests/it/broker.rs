use std::process::Command;

use consign_testkit::{BrokerEvent, HonestBroker, Step, Tally};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_honest-broker"))
}

async fn broker() -> HonestBroker {
    HonestBroker::start(program).await
}

/// Sends a request; an empty answer if the connection was closed without one.
async fn ask(broker: &HonestBroker, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(broker.address()).await.unwrap();
    let length = body.len();
    let request = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    // The broker keeps the connection; closing our half lets it end after its answer.
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn send(broker: &HonestBroker, key: &str, steps: &[Step]) -> String {
    let head = format!("POST /orders HTTP/1.1\r\nIdempotency-Key: {key}");
    ask(broker, &head, &body(steps)).await
}

fn body(steps: &[Step]) -> String {
    let tags: Vec<String> = steps.iter().map(Step::tag).collect();
    format!(r#"{{"instrument":"USDJPY","side":"BUY","qty":0.10,"tags":{tags:?}}}"#)
}

fn tally(sends: usize, executions: usize) -> Tally {
    Tally {
        sends,
        executions,
        queries: 0,
    }
}

#[tokio::test]
async fn a_key_is_executed_once_also_by_a_broker_that_was_killed() {
    let mut broker = broker().await;
    let first = send(&broker, "a/1", &[]).await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    assert!(first.contains(r#""executed_qty":0.10"#), "{first}");
    broker.kill9();
    broker.start_again().await;
    assert_eq!(send(&broker, "a/1", &[]).await, first);
    assert_eq!(broker.journal().tally("a/1"), tally(2, 1));
    let other = send(&broker, "a/1", &[Step::Fill]).await;
    assert!(
        other.starts_with("HTTP/1.1 409"),
        "another body under the same key: {other}"
    );
}

#[tokio::test]
async fn without_deduplication_a_repeat_is_an_execution() {
    let mut broker = broker().await;
    broker.tell(|manner| manner.dedupes = false).await;
    broker.kill9();
    broker.start_again().await;
    send(&broker, "a/1", &[]).await;
    send(&broker, "a/1", &[]).await;
    assert_eq!(broker.journal().tally("a/1"), tally(2, 2));
}

#[tokio::test]
async fn a_script_is_played_send_by_send() {
    let broker = broker().await;
    let script = [
        (Step::Drop, "", 0),
        (Step::Refuse(503), "HTTP/1.1 503", 0),
        (Step::Busy(7), "HTTP/1.1 429", 0),
        (Step::Reject, "HTTP/1.1 200", 0),
        (Step::Garbage, "HTTP/1.1 200", 0),
        (Step::Hang, "", 0),
        (Step::ExecuteDrop, "", 1),
        (Step::ExecuteGarbage, "HTTP/1.1 200", 1),
    ];
    let steps: Vec<Step> = script.iter().map(|(step, ..)| step.clone()).collect();
    for (number, (step, expected, executions)) in script.iter().enumerate() {
        let answer = send(&broker, "a/1", &steps).await;
        assert_eq!(answer.is_empty(), expected.is_empty(), "{step}: {answer}");
        assert!(answer.starts_with(expected), "{step}: {answer}");
        let seen = broker.journal().tally("a/1");
        assert_eq!(seen, tally(number + 1, *executions), "{step}");
    }
    let last = send(&broker, "a/1", &steps).await;
    assert!(last.contains(r#""status":"ok""#), "used up: {last}");
}

#[tokio::test]
async fn it_answers_status_queries_by_key_if_configured() {
    let broker = broker().await;
    send(&broker, "a/1", &[Step::Partial("0.04".into())]).await;
    let query = "GET /orders/a%2F1 HTTP/1.1";
    let told = ask(&broker, query, "").await;
    assert!(told.contains(r#""executed_qty":0.04"#), "{told}");
    let unknown = ask(&broker, "GET /orders/a%2F2 HTTP/1.1", "").await;
    assert!(unknown.starts_with("HTTP/1.1 404"), "{unknown}");
    broker.tell(|manner| manner.answers_queries = false).await;
    let refused = ask(&broker, query, "").await;
    assert!(refused.starts_with("HTTP/1.1 501"), "{refused}");
    assert_eq!(broker.journal().tally("a/1").queries, 2);
}

#[tokio::test]
async fn behind_a_closed_gate_orders_are_taken_and_not_executed() {
    let broker = broker().await;
    broker.tell(|manner| manner.is_open = false).await;
    let waiting = async {
        tokio::join!(send(&broker, "a/1", &[]), send(&broker, "a/2", &[]));
    };
    let taken = async {
        broker.was_sent(2).await;
        assert_eq!(broker.journal().tally("a/1"), tally(1, 0));
    };
    tokio::select! {
        () = waiting => panic!("answered behind a closed gate"),
        () = taken => {}
    }
    // Both callers are gone; their orders are not.
    broker.tell(|manner| manner.is_open = true).await;
    broker.has_executed("a/1").await;
    broker.has_executed("a/2").await;
    let journal = broker.journal();
    assert_eq!(journal.in_flight_max(), 2);
    let told = |event: &&BrokerEvent| matches!(event, BrokerEvent::Error { .. });
    assert_eq!(journal.0.iter().filter(told).count(), 2);
}
