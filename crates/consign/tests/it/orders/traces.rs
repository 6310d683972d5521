//! Orders as a collector of traces sees them.

use consign_testkit::Step;

use super::{
    bench::{on_one, post_with},
    privacy::{assert_no_secrets, order, settings},
};
use crate::{
    otlp::collector::{Collector, Span},
    service::Service,
};

#[test]
fn orders_and_sends_are_spans_without_secrets() {
    on_one(async |mut bench| {
        let collector = Collector::start().await;
        let token = settings(&mut bench);
        let endpoint = format!("http://{}", collector.address());
        let arguments = ["serve", "--listen", "127.0.0.1:0"];
        let service = Service::start(&bench.consign, &arguments, |command| {
            command
                .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
                .env("OTEL_BSP_SCHEDULE_DELAY", "100");
        })
        .await;
        let key = "s3cret-key-0022";
        let more = format!("authorization: Bearer {token}\r\nprefer: wait=15\r\n");
        let answer = post_with(&service, key, &more, &order(key, &[Step::Blab(500)])).await;
        assert_eq!(answer.json()["status"], "ok", "{answer:?}");
        service.stop().await;

        let spans = collector.spans();
        let named = |name: &str| -> Vec<&Span> {
            let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
            assert!(!found.is_empty(), "no {name} in {spans:#?}");
            found
        };
        assert_eq!(named("do.order").len(), 1);
        let processed = named("outbox.process");
        let sent = named("broker.send");
        assert_eq!((processed.len(), sent.len()), (2, 2), "{spans:#?}");
        for (process, send) in processed.iter().zip(sent) {
            assert_eq!((&send.trace, &send.parent), (&process.trace, &process.id));
        }
        assert_no_secrets("traces", &collector.text(), &token);
    });
}
