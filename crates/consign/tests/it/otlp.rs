//! Traces, as a collector receives them.

pub(crate) mod collector;

use serde_json::json;

use self::collector::{Collector, Span};
use crate::{
    http,
    receiver::{Receiver, ReplyMode},
    service::{Service, unfinished},
    support::Consign,
};
use consign_testkit::eventually;

use crate::service::SOON;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn serve(consign: &Consign, collector: &Collector) -> Service {
    let endpoint = format!("http://{}", collector.address());
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    Service::start(consign, &arguments, |command| {
        command
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_SERVICE_NAME", "shop")
            .env("OTEL_BSP_SCHEDULE_DELAY", "100");
    })
    .await
}

#[tokio::test]
async fn the_first_attempt_continues_the_trace_and_retries_link_to_it() {
    let collector = Collector::start().await;
    let receiver = Receiver::start(ReplyMode::Refuses).await;
    let consign = Consign::new();
    consign.configure(&format!(
        "[queues.events]\nretry = {{ kind = \"fixed\", delay_ms = 10 }}\n[queues.events.sink]\n{}",
        receiver.sink()
    ));
    let service = serve(&consign, &collector).await;
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let header = format!("traceparent={traceparent}");
    consign
        .run(["enqueue", "1", "--queue", "events", "--header", &header])
        .expect(0);
    receiver.began(1).await;
    receiver.set(ReplyMode::Takes(std::time::Duration::ZERO));
    eventually("it is delivered", SOON, async || {
        unfinished(&consign, "events") == 0
    })
    .await;
    service.stop().await;

    let spans = collector.spans();
    let attempts: Vec<&Span> = spans
        .iter()
        .filter(|span| span.name == "deliver events")
        .collect();
    assert!(attempts.len() >= 2, "{spans:#?}");
    let (first, later) = attempts.split_first().unwrap();
    assert_eq!(
        (first.trace.as_str(), first.parent.as_str()),
        (TRACE, PARENT),
        "{first:?}"
    );
    assert!(first.links.is_empty(), "{first:?}");
    for retry in later {
        assert_ne!(retry.trace, TRACE, "a trace of its own: {retry:?}");
        assert_eq!(retry.parent, "", "{retry:?}");
        assert_eq!(
            retry.links,
            [(TRACE.to_owned(), PARENT.to_owned())],
            "{retry:?}"
        );
    }
    assert!(collector.resources().contains("shop"), "OTEL_SERVICE_NAME");
}

#[tokio::test]
async fn an_enqueue_over_http_is_a_span_between_its_caller_and_the_delivery() {
    let collector = Collector::start().await;
    let consign = Consign::new();
    consign.configure("[queues.hello.sink]\nkind = \"discard\"\n");
    let service = serve(&consign, &collector).await;
    let body = json!({"payload": 1}).to_string();
    let head = format!(
        "POST /v1/queues/hello/messages HTTP/1.1\r\ncontent-type: application/json\r\n\
         traceparent: 00-{TRACE}-{PARENT}-01\r\ncontent-length: {}\r\n",
        body.len()
    );
    let answer = http::send(service.address(), &head, &body).await.unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    eventually("it is delivered", SOON, async || {
        unfinished(&consign, "hello") == 0
    })
    .await;
    service.stop().await;

    let spans = collector.spans();
    let named = |name: &str| {
        let found = spans.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no {name:?} in {spans:#?}"))
    };
    let request = named("POST /v1/queues/hello/messages");
    assert_eq!(
        (request.trace.as_str(), request.parent.as_str()),
        (TRACE, PARENT)
    );
    let delivery = named("deliver hello");
    assert_eq!(
        (delivery.trace.as_str(), &delivery.parent),
        (TRACE, &request.id)
    );
    assert!(
        !spans.iter().any(|span| span.name.contains("readyz")),
        "probes are not traced"
    );
}
