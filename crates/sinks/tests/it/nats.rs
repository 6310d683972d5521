//! Against real NATS servers.

use std::{sync::Arc, time::Duration};

use async_nats::Client;
use consign_kernel::Outcome;
use consign_testkit::{ChaosProxy, NatsServer, eventually, eventually_some};
use consign_worker::{About, Sink};
use serde_json::{Value, json};

use crate::{
    brokers::{PATIENCE, Run, again, data, give_up, is, nothing_lost, numbered},
    fixture::{EXACT, delivery_of, delivery_within, exact, sink, try_sink},
};

/// A client that looks at streams from outside, without the sink's code.
pub(crate) async fn observer(urls: &[String]) -> Client {
    async_nats::connect(urls).await.unwrap()
}

/// Calls JetStream's API; errors are in the answer.
async fn api(client: &Client, command: &str, body: Value) -> Option<Value> {
    let subject = format!("$JS.API.{command}");
    let answer = client
        .request(subject, body.to_string().into())
        .await
        .ok()?;
    Some(serde_json::from_slice(&answer.payload).unwrap())
}

/// Makes a stream `ORDERS` for `orders.>`, with patience: a cluster elects its leader first.
pub(crate) async fn make_stream(client: &Client, more: Value) {
    let mut config = json!({ "name": "ORDERS", "subjects": ["orders.>"] });
    let more = more.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(more);
    eventually_some("the stream is made", PATIENCE, || async {
        let answer = api(client, "STREAM.CREATE.ORDERS", config.clone()).await?;
        answer.get("config").map(drop)
    })
    .await;
}

/// The stream's info.
pub(crate) async fn stream_info(client: &Client) -> Value {
    eventually_some("the stream answers", PATIENCE, || async {
        let info = api(client, "STREAM.INFO.ORDERS", json!({})).await?;
        info.get("state").is_some().then_some(info)
    })
    .await
}

/// Returns once the stream has as many messages.
async fn until_stored(client: &Client, count: u64) {
    eventually("the stream has them", PATIENCE, || async {
        stream_info(client).await["state"]["messages"] == count
    })
    .await;
}

/// The numbers of all messages in the stream, as their payloads say.
pub(crate) async fn stored(client: &Client) -> Vec<i64> {
    let info = stream_info(client).await;
    let last = info["state"]["last_seq"].as_u64().unwrap();
    let mut numbers = Vec::new();
    for sequence in 1..=last {
        let message = message(client, sequence).await;
        numbers.push(message.payload["number"].as_i64().unwrap());
    }
    numbers
}

pub(crate) struct StoredMessage {
    pub(crate) subject: String,
    pub(crate) headers: String,
    /// The payload as it was sent.
    pub(crate) text: String,
    pub(crate) payload: Value,
}

async fn message(client: &Client, sequence: u64) -> StoredMessage {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let body = json!({ "seq": sequence });
    let answer = eventually_some("the message is read", PATIENCE, || async {
        let answer = api(client, "STREAM.MSG.GET.ORDERS", body.clone()).await?;
        answer.get("message").cloned()
    })
    .await;
    let decode = |field: &str| {
        let text = answer[field].as_str().unwrap_or_default();
        STANDARD.decode(text).unwrap()
    };
    StoredMessage {
        subject: answer["subject"].as_str().unwrap().to_owned(),
        headers: String::from_utf8(decode("hdrs")).unwrap(),
        text: String::from_utf8(decode("data")).unwrap(),
        payload: serde_json::from_slice(&decode("data")).unwrap(),
    }
}

pub(crate) async fn nats_sink(url: &str, more: &str) -> Arc<dyn Sink> {
    sink(&format!(
        "kind = \"nats\"\nservers = [\"{url}\"]\nsubject = \"orders.{{queue}}.{{group}}\"\n{more}"
    ))
    .await
}

#[tokio::test]
async fn a_message_is_stored_with_what_identifies_it() {
    let server = NatsServer::start().await;
    let observer = observer(&[server.url()]).await;
    make_stream(&observer, json!({})).await;
    let sink = nats_sink(
        &server.url(),
        "cloudevents = \"binary\"\nforward_headers = [\"x-*\"]",
    )
    .await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let delivery = exact(|message| {
        message.group = Some("a.b c".into());
        message.headers.insert("traceparent".into(), json!(trace));
        message.headers.insert("X-Shop".into(), json!(7));
        message.headers.insert("Nats-Rollup".into(), json!("all"));
    });
    let verdict = sink.deliver(&delivery).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    assert_eq!(
        verdict.result,
        Some(json!({ "stream": "ORDERS", "sequence": 1 }))
    );
    let stored = message(&observer, 1).await;
    assert_eq!(stored.subject, "orders.orders.a%2Eb%20c");
    assert_eq!(stored.text, EXACT);
    for line in [
        "Nats-Msg-Id: orders:order-7",
        "Consign-Message-Id: 7",
        "Consign-Attempt: 3",
        "Consign-Fence: 41",
        "X-Shop: 7",
        "ce-id: orders:order-7",
        "ce-type: consign.orders",
        "Content-Type: application/json",
        &format!("traceparent: {trace}"),
    ] {
        assert!(stored.headers.contains(line), "{line}: {}", stored.headers);
    }
    assert!(!stored.headers.contains("Rollup"), "{}", stored.headers);
}

#[tokio::test]
async fn a_repeat_is_recognised_and_counts_as_delivered() {
    let server = NatsServer::start().await;
    let observer = observer(&[server.url()]).await;
    make_stream(&observer, json!({})).await;
    let sink = nats_sink(&server.url(), "").await;
    let first = numbered(1);
    sink.deliver(&first).await;
    let verdict = sink.deliver(&again(&first)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    let repeat = json!({ "stream": "ORDERS", "sequence": 1, "duplicate": true });
    assert_eq!(verdict.result, Some(repeat));
    let other = nats_sink(&server.url(), "id_prefix = \"b/\"").await;
    other.deliver(&first).await;
    assert_eq!(
        stored(&observer).await,
        [1, 1],
        "another prefix is another message"
    );
}

#[tokio::test]
async fn an_acknowledgement_that_is_lost_leaves_doubt_and_a_resend_is_safe() {
    let server = NatsServer::start().await;
    let observer = observer(&[server.url()]).await;
    make_stream(&observer, json!({})).await;
    let proxy = ChaosProxy::start(server.address()).await;
    let url = format!("nats://{}", proxy.address());
    let options = "connect_timeout_ms = 20000";
    let sink = nats_sink(&url, options).await;
    sink.deliver(&numbered(1)).await;

    proxy.swallow_replies();
    let lost = numbered(2);
    let (verdict, ()) = tokio::join!(sink.deliver(&lost), async {
        // Not every reply is the acknowledgement: servers also ask whether we are there.
        until_stored(&observer, 2).await;
        proxy.reply_withheld().await;
        proxy.cut().await;
        proxy.resume();
        proxy.restore();
    });
    is(&verdict, Outcome::Uncertain, "connection_broken");
    assert_eq!(verdict.about, About::Sink);

    let verdict = sink.deliver(&again(&lost)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    assert_eq!(verdict.result.unwrap()["duplicate"], true);

    proxy.swallow_replies();
    let mut impatient = numbered(3);
    impatient.timeout = Duration::from_millis(200);
    let verdict = sink.deliver(&impatient).await;
    is(&verdict, Outcome::Uncertain, "timeout");
    until_stored(&observer, 3).await;
    assert_eq!(stored(&observer).await, [1, 2, 3]);
}

#[tokio::test]
async fn a_restart_in_mid_delivery_loses_nothing_and_doubles_nothing() {
    let mut server = NatsServer::start().await;
    let url = server.url();
    make_stream(&observer(std::slice::from_ref(&url)).await, json!({})).await;
    let sink = nats_sink(&url, "").await;
    let run = Run::of(500);
    let (tally, ()) = tokio::join!(run.through(&sink), async {
        run.reaches(100).await;
        server.terminate().await;
        server.start_again().await;
    });
    assert!(tally.retries + tally.doubted.len() > 0, "it was noticed");
    let found = stored(&observer(std::slice::from_ref(&url)).await).await;
    nothing_lost(500, &found, &tally);
    assert_eq!(found.len(), 500, "resent messages were recognised");
}

#[tokio::test]
async fn distinguishes_the_rejections_of_the_server() {
    let server = NatsServer::start_with("max_payload: 2048").await;
    let observer = observer(&[server.url()]).await;
    let sink = nats_sink(&server.url(), "").await;
    let verdict = sink.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "no_stream");
    assert_eq!(verdict.about, About::Sink);
    assert!(verdict.detail.unwrap().contains("orders.orders.-"));

    let limits = json!({ "max_msg_size": 1024, "max_msgs": 1, "discard": "new" });
    make_stream(&observer, limits).await;
    for length in [1500, 4000] {
        let large = delivery_of(json!("x".repeat(length)), |_| ());
        let verdict = sink.deliver(&large).await;
        is(&verdict, Outcome::Dead, "payload_too_large");
        assert_eq!(verdict.about, About::Message);
    }
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    let verdict = sink.deliver(&numbered(2)).await;
    is(&verdict, Outcome::Retry, "jetstream_10077");
    assert_eq!(stored(&observer).await, [1]);
}

#[tokio::test]
async fn logins_are_checked_and_rejections_reported() {
    let server = NatsServer::start_with(
        "authorization { users = [\n\
         { user: ada, password: tulip }\n\
         { user: bob, password: rose, permissions: { publish: { deny: \"orders.>\" } } }\n\
         ] }",
    )
    .await;
    let options = async_nats::ConnectOptions::with_user_and_password("ada".into(), "tulip".into());
    let observer = options.connect(server.url()).await.unwrap();
    make_stream(&observer, json!({})).await;

    let sink = nats_sink(&server.url(), "user = \"ada\"\npassword = \"wrong\"").await;
    let verdict = sink.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "unauthorized");
    assert_eq!(verdict.about, About::Sink);
    assert!(!format!("{verdict:?} {sink:?}").contains("wrong"));

    let sink = nats_sink(&server.url(), "user = \"bob\"\npassword = \"rose\"").await;
    let verdict = sink.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "unauthorized");

    let sink = nats_sink(&server.url(), "user = \"ada\"\npassword = \"tulip\"").await;
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");

    let text = "kind = \"nats\"\nservers = [\"nats://h\"]\nsubject = \"a\"\nuser = \"u\"\n\
                password = \"p\"\ntoken = \"t\"";
    let error = try_sink(text).await.unwrap_err().to_string();
    assert!(error.contains("one way to log in"), "{error}");
}

#[tokio::test]
async fn an_absent_server_is_a_retry_and_is_found_when_it_comes() {
    let mut server = NatsServer::start().await;
    make_stream(&observer(&[server.url()]).await, json!({})).await;
    server.kill9();
    let sink = nats_sink(&server.url(), "connect_timeout_ms = 300").await;
    let verdict = sink.deliver(&delivery_within(Duration::from_secs(5))).await;
    is(&verdict, Outcome::Retry, "connect_failed");
    server.start_again().await;
    Run::of(1).through(&sink).await;
}

#[tokio::test]
async fn deliveries_that_are_given_up_do_not_harm_others() {
    let server = NatsServer::start().await;
    make_stream(&observer(&[server.url()]).await, json!({})).await;
    let sink = nats_sink(&server.url(), "").await;
    give_up(&*sink, 30).await;
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
}

#[tokio::test]
async fn tls_is_spoken_with_whom_the_file_trusts() {
    let (cert, key) = (data("server.pem"), data("server.key"));
    let server =
        NatsServer::start_with(&format!("tls {{ cert_file: {cert:?}, key_file: {key:?} }}")).await;
    let sink = nats_sink(&server.url(), "tls = true\nconnect_timeout_ms = 2000").await;
    let verdict = sink.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "connect_failed");

    let sink = nats_sink(&server.url(), &format!("ca_file = {:?}", data("ca.pem"))).await;
    let verdict = sink.deliver(&numbered(1)).await;
    is(&verdict, Outcome::Retry, "no_stream");
}
