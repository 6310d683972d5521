//! Against a real RabbitMQ, which takes seconds to start: few tests that show much.

use std::{sync::Arc, time::Duration};

use consign_kernel::Outcome;
use consign_testkit::{ChaosProxy, RabbitmqServer, eventually};
use consign_worker::{About, Sink};
use lapin::{
    Channel, Connection, ConnectionProperties, ExchangeKind,
    message::BasicGetMessage,
    options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use serde_json::{Value, json};

use crate::{
    brokers::{PATIENCE, Run, again, data, give_up, is, nothing_lost, numbered},
    fixture::{EXACT, delivery_of, exact, sink},
};

const DURABLE_QUEUE: QueueDeclareOptions = QueueDeclareOptions {
    passive: false,
    durable: true,
    exclusive: false,
    auto_delete: false,
    nowait: false,
};

/// A connection that looks at queues from outside, without the sink's code.
async fn observer(server: &RabbitmqServer) -> (Connection, Channel) {
    let connection = Connection::connect(&server.url(), ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    (connection, channel)
}

async fn make_queue(channel: &Channel, name: &str, arguments: FieldTable) {
    channel
        .queue_declare(name.into(), DURABLE_QUEUE, arguments)
        .await
        .unwrap();
}

async fn take(channel: &Channel, queue: &str) -> Option<BasicGetMessage> {
    let options = BasicGetOptions { no_ack: true };
    channel.basic_get(queue.into(), options).await.unwrap()
}

/// Returns once a queue has as many messages.
async fn until_queued(channel: &Channel, queue: &str, count: u32) {
    let options = QueueDeclareOptions {
        passive: true,
        ..DURABLE_QUEUE
    };
    eventually("the queue has them", PATIENCE, || async {
        let asked = channel.queue_declare(queue.into(), options, FieldTable::default());
        asked.await.unwrap().message_count() == count
    })
    .await;
}

/// The numbers of all messages in a queue, as their payloads say.
async fn drained(channel: &Channel, queue: &str) -> Vec<i64> {
    let mut numbers = Vec::new();
    while let Some(message) = take(channel, queue).await {
        let payload: Value = serde_json::from_slice(&message.delivery.data).unwrap();
        numbers.push(payload["number"].as_i64().unwrap());
    }
    numbers
}

async fn rabbitmq_sink(address: impl std::fmt::Display, more: &str) -> Arc<dyn Sink> {
    sink(&format!(
        "kind = \"rabbitmq\"\nurl = \"amqp://{address}\"\n{more}"
    ))
    .await
}

#[tokio::test]
async fn distinguishes_confirms_returns_and_rejections_of_rabbitmq() {
    let server = RabbitmqServer::start_with(&format!(
        "max_message_size = 65536\n\
         ssl_options.cacertfile = {ca}\n\
         ssl_options.certfile = {cert}\n\
         ssl_options.keyfile = {key}\n\
         ssl_options.verify = verify_none",
        ca = data("ca.pem").display(),
        cert = data("server.pem").display(),
        key = data("server.key").display(),
    ))
    .await;
    let (_connection, channel) = observer(&server).await;
    make_queue(&channel, "orders", FieldTable::default()).await;
    it_publishes(&server, &channel).await;
    it_routes(&server, &channel).await;
    it_is_refused(&server, &channel).await;
    it_loses_a_confirmation(&server, &channel).await;
    it_speaks_tls(&server).await;

    let sink = rabbitmq_sink(server.address(), "routing_key = \"orders\"").await;
    give_up(&*sink, 30).await;
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
}

async fn it_publishes(server: &RabbitmqServer, channel: &Channel) {
    let sink = rabbitmq_sink(
        server.address(),
        "routing_key = \"{queue}\"\ncloudevents = \"binary\"",
    )
    .await;
    let verdict = sink.deliver(&exact(|_| ())).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    let message = take(channel, "orders").await.unwrap().delivery;
    assert_eq!(message.data, EXACT.as_bytes());
    let properties = &message.properties;
    assert_eq!(properties.delivery_mode(), &Some(2));
    let id = properties.message_id().as_ref().unwrap();
    assert_eq!(id.as_str(), "orders:order-7");
    let headers = properties.headers().as_ref().unwrap().inner();
    for (name, expected) in [
        ("Idempotency-Key", "orders:order-7"),
        ("Consign-Message-Id", "7"),
        ("Consign-Attempt", "3"),
        ("Consign-Fence", "41"),
        ("ce-type", "consign.orders"),
    ] {
        let expected = AMQPValue::LongString(expected.into());
        assert_eq!(headers.get(name), Some(&expected), "{name}");
    }

    // A key too long for the property travels in the header.
    let long = delivery_of(json!(1), |message| message.key = Some("k".repeat(500)));
    let verdict = sink.deliver(&long).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    let message = take(channel, "orders").await.unwrap().delivery;
    assert_eq!(message.properties.message_id(), &None);
}

async fn it_routes(server: &RabbitmqServer, channel: &Channel) {
    let options = ExchangeDeclareOptions::default();
    channel
        .exchange_declare(
            "shop".into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        )
        .await
        .unwrap();
    let options = QueueBindOptions::default();
    let table = FieldTable::default();
    channel
        .queue_bind(
            "orders".into(),
            "shop".into(),
            "*.paid".into(),
            options,
            table,
        )
        .await
        .unwrap();
    let more = "exchange = \"shop\"\nrouting_key = \"{queue}.{group}\"";
    let sink = rabbitmq_sink(server.address(), more).await;
    // Both kinds at once: each delivery must get its own answer.
    let paid = |id| {
        let mut delivery = numbered(id);
        let group = if id % 2 == 0 { "paid" } else { "open" };
        Arc::make_mut(&mut delivery.message).group = Some(group.into());
        delivery
    };
    let deliveries: Vec<_> = (1..=40)
        .map(|id| {
            let sink = sink.clone();
            tokio::spawn(async move { (id, sink.deliver(&paid(id)).await) })
        })
        .collect();
    for delivery in deliveries {
        let (id, verdict) = delivery.await.unwrap();
        if id % 2 == 0 {
            assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
        } else {
            is(&verdict, Outcome::Retry, "unroutable");
            assert_eq!(verdict.about, About::Sink);
        }
    }
    let mut found = drained(channel, "orders").await;
    found.sort_unstable();
    let even: Vec<i64> = (1..=20).map(|half| half * 2).collect();
    assert_eq!(found, even);
}

async fn it_is_refused(server: &RabbitmqServer, channel: &Channel) {
    let missing = "exchange = \"nowhere\"\nrouting_key = \"orders\"";
    let sink = rabbitmq_sink(server.address(), missing).await;
    let verdict = sink.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "no_exchange");
    assert_eq!(verdict.about, About::Sink);

    let sink = rabbitmq_sink(server.address(), "routing_key = \"orders\"").await;
    let large = delivery_of(json!("x".repeat(100_000)), |_| ());
    let verdict = sink.deliver(&large).await;
    is(&verdict, Outcome::Dead, "payload_too_large");
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    assert_eq!(drained(channel, "orders").await, [1]);

    let wrong = "routing_key = \"orders\"\nuser = \"guest\"\npassword = \"wrong\"";
    let sink = rabbitmq_sink(server.address(), wrong).await;
    let verdict = sink.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "unauthorized");
    assert!(!format!("{verdict:?} {sink:?}").contains("wrong"));

    let mut full = FieldTable::default();
    full.insert("x-max-length".into(), AMQPValue::LongInt(1));
    let policy = AMQPValue::LongString("reject-publish".into());
    full.insert("x-overflow".into(), policy);
    make_queue(channel, "full", full).await;
    let sink = rabbitmq_sink(server.address(), "routing_key = \"full\"").await;
    assert_eq!(sink.deliver(&numbered(1)).await.outcome, Outcome::Delivered);
    is(&sink.deliver(&numbered(2)).await, Outcome::Retry, "nacked");
}

async fn it_loses_a_confirmation(server: &RabbitmqServer, channel: &Channel) {
    let proxy = ChaosProxy::start(server.address()).await;
    let sink = rabbitmq_sink(proxy.address(), "routing_key = \"orders\"").await;
    assert_eq!(sink.deliver(&numbered(1)).await.outcome, Outcome::Delivered);

    proxy.swallow_replies();
    let lost = numbered(2);
    let (verdict, ()) = tokio::join!(sink.deliver(&lost), async {
        // Not every reply is the confirmation: there are heartbeats too.
        until_queued(channel, "orders", 2).await;
        proxy.reply_withheld().await;
        proxy.cut().await;
    });
    is(&verdict, Outcome::Uncertain, "connection_broken");
    let verdict = sink.deliver(&again(&lost)).await;
    is(&verdict, Outcome::Retry, "connect_failed");

    proxy.resume();
    proxy.restore();
    Run::of(1).through(&sink).await;
    proxy.swallow_replies();
    let mut impatient = numbered(3);
    impatient.timeout = Duration::from_millis(300);
    is(
        &sink.deliver(&impatient).await,
        Outcome::Uncertain,
        "timeout",
    );
    proxy.resume();
    until_queued(channel, "orders", 4).await;
    assert_eq!(drained(channel, "orders").await, [1, 2, 1, 3]);
}

async fn it_speaks_tls(server: &RabbitmqServer) {
    let address = format!("amqps://{}", server.tls_address());
    let describe = |more: &str| {
        format!("kind = \"rabbitmq\"\nurl = \"{address}\"\nrouting_key = \"orders\"\n{more}")
    };
    let stranger = sink(&describe("")).await;
    let verdict = stranger.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "connect_failed");
    let trusting = sink(&describe(&format!("ca_file = {:?}", data("ca.pem")))).await;
    let verdict = trusting.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
}

#[tokio::test]
async fn a_restart_of_rabbitmq_in_mid_delivery_loses_nothing() {
    let mut server = RabbitmqServer::start().await;
    let (_connection, channel) = observer(&server).await;
    make_queue(&channel, "orders", FieldTable::default()).await;
    let sink = rabbitmq_sink(server.address(), "routing_key = \"orders\"").await;
    let run = Run::of(500);
    let (tally, ()) = tokio::join!(run.through(&sink), async {
        run.reaches(100).await;
        server.kill9();
        server.start_again().await;
    });
    assert!(tally.retries + tally.doubted.len() > 0, "it was noticed");
    let (_connection, channel) = observer(&server).await;
    nothing_lost(500, &drained(&channel, "orders").await, &tally);
}
