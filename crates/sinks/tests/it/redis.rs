//! Against a real Redis.

use std::{collections::HashMap, sync::Arc, time::Duration};

use consign_kernel::Outcome;
use consign_testkit::{ChaosProxy, RedisServer};
use consign_worker::{About, Probe, Sink};
use jiff::{Timestamp, ToSpan};
use redis::{aio::MultiplexedConnection, cmd};
use serde_json::json;

use crate::{
    brokers::{Run, again, data, give_up, is, nothing_lost, numbered},
    fixture::{EXACT, exact, sink, try_sink},
};

type Entry = (String, HashMap<String, String>);

pub(crate) async fn observer(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn entries(connection: &mut MultiplexedConnection) -> Vec<Entry> {
    let mut range = cmd("XRANGE");
    range.arg("orders").arg("-").arg("+");
    range.query_async(connection).await.unwrap()
}

/// The numbers of all entries, as their payloads say.
pub(crate) async fn stored(connection: &mut MultiplexedConnection) -> Vec<i64> {
    let number = |(_, fields): &Entry| {
        let payload: serde_json::Value = serde_json::from_str(&fields["payload"]).unwrap();
        payload["number"].as_i64().unwrap()
    };
    entries(connection).await.iter().map(number).collect()
}

pub(crate) async fn redis_sink(url: &str, more: &str) -> Arc<dyn Sink> {
    sink(&format!(
        "kind = \"redis\"\nurl = \"{url}\"\nstream = \"{{queue}}\"\n{more}"
    ))
    .await
}

#[tokio::test]
async fn a_message_becomes_an_entry() {
    let server = RedisServer::start().await;
    let mut observer = observer(&server).await;
    let sink = redis_sink(&server.url(), "").await;
    let delivery = exact(|message| {
        message.group = Some("g".into());
        message.headers.insert("a".into(), json!(true));
    });
    let verdict = sink.deliver(&delivery).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    let [(entry, fields)] = &entries(&mut observer).await[..] else {
        panic!("one entry")
    };
    assert_eq!(verdict.result, Some(json!({ "entry": entry })));
    let expected = [
        ("id", "7"),
        ("queue", "orders"),
        ("key", "order-7"),
        ("group", "g"),
        ("payload", EXACT),
        ("headers", r#"{"a":true}"#),
        ("fence", "41"),
        ("attempt", "3"),
    ];
    assert_eq!(fields.len(), expected.len(), "{fields:?}");
    for (name, value) in expected {
        assert_eq!(fields[name], value);
    }
}

#[tokio::test]
async fn a_stream_is_trimmed_if_wanted() {
    let server = RedisServer::start_with(&["--stream-node-max-entries", "10"]).await;
    let mut observer = observer(&server).await;
    for dedupe in ["", "dedupe_ttl_ms = 60000"] {
        let sink = redis_sink(&server.url(), &format!("max_len = 20\n{dedupe}")).await;
        for id in 1..=200 {
            let verdict = sink.deliver(&numbered(id)).await;
            assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
        }
        let kept = entries(&mut observer).await.len();
        assert!((20..=40).contains(&kept), "{kept} entries are kept");
    }
}

#[tokio::test]
async fn a_repeat_is_added_again_without_dedupe_ttl() {
    let server = RedisServer::start().await;
    let mut observer = observer(&server).await;
    let (first, repeat) = (numbered(1), again(&numbered(1)));

    let sink = redis_sink(&server.url(), "").await;
    sink.deliver(&first).await;
    sink.deliver(&repeat).await;
    assert_eq!(stored(&mut observer).await, [1, 1]);
    let probe = sink.probe(&repeat).await;
    assert!(matches!(probe, Probe::CannotTell(_)), "{probe:?}");

    let sink = redis_sink(&server.url(), "dedupe_ttl_ms = 86400000").await;
    let fresh = |id| {
        let mut delivery = numbered(id);
        Arc::make_mut(&mut delivery.message).created_at = Timestamp::now();
        delivery
    };
    assert_eq!(sink.probe(&fresh(2)).await, Probe::NotDelivered);
    let added = sink.deliver(&fresh(2)).await;
    assert_eq!(added.outcome, Outcome::Delivered, "{added:?}");
    let entry = added.result.unwrap();
    let verdict = sink.deliver(&fresh(2)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered);
    let repeated = json!({ "entry": entry["entry"], "duplicate": true });
    assert_eq!(verdict.result, Some(repeated));
    assert_eq!(stored(&mut observer).await, [1, 1, 2]);
    assert_eq!(sink.probe(&fresh(2)).await, Probe::Delivered(Some(entry)));

    // Redis may have known a message as old as its memory, and forgotten it.
    let mut old = fresh(3);
    Arc::make_mut(&mut old.message).created_at = Timestamp::now() - 24.hours();
    let probe = sink.probe(&old).await;
    assert!(matches!(probe, Probe::CannotTell(_)), "{probe:?}");
}

#[tokio::test]
async fn an_answer_that_is_lost_leaves_doubt() {
    let server = RedisServer::start().await;
    let mut observer = observer(&server).await;
    let proxy = ChaosProxy::start(server.address()).await;
    let url = format!("redis://{}", proxy.address());
    let sink = redis_sink(&url, "dedupe_ttl_ms = 60000").await;
    sink.deliver(&numbered(1)).await;

    proxy.swallow_replies();
    let (verdict, ()) = tokio::join!(async { sink.deliver(&numbered(2)).await }, async {
        proxy.reply_withheld().await;
        proxy.cut().await;
    });
    is(&verdict, Outcome::Uncertain, "connection_broken");
    assert_eq!(verdict.about, About::Sink);
    let verdict = sink.deliver(&numbered(3)).await;
    is(&verdict, Outcome::Retry, "connect_failed");

    proxy.resume();
    proxy.restore();
    Run::of(3).through(&sink).await;
    assert_eq!(
        stored(&mut observer).await,
        [1, 2, 3],
        "the repeats were recognised"
    );

    proxy.swallow_replies();
    let mut impatient = numbered(4);
    impatient.timeout = Duration::from_millis(200);
    let verdict = sink.deliver(&impatient).await;
    is(&verdict, Outcome::Uncertain, "timeout");
}

#[tokio::test]
async fn a_restart_in_mid_delivery_loses_nothing() {
    for (dedupe, most) in [("", usize::MAX), ("dedupe_ttl_ms = 60000", 500)] {
        let mut server = RedisServer::start().await;
        let sink = redis_sink(&server.url(), dedupe).await;
        let run = Run::of(500);
        let (tally, ()) = tokio::join!(run.through(&sink), async {
            run.reaches(100).await;
            server.kill9();
            server.start_again().await;
        });
        assert!(tally.retries + tally.doubted.len() > 0, "it was noticed");
        let found = stored(&mut observer(&server).await).await;
        nothing_lost(500, &found, &tally);
        assert!(found.len() <= most, "{} entries", found.len());
    }
}

#[tokio::test]
async fn rejections_of_redis_are_distinguished_and_not_remembered() {
    let server = RedisServer::start().await;
    let mut observer = observer(&server).await;
    let sink = redis_sink(&server.url(), "dedupe_ttl_ms = 60000").await;
    let mut run = async |words: &[&str]| {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        let (): () = command.query_async(&mut observer).await.unwrap();
    };
    let table: &[(&[&str], &[&str], &str)] = &[
        (
            &["SET", "orders", "x"],
            &["DEL", "orders"],
            "redis_wrongtype",
        ),
        (
            &["CONFIG", "SET", "maxmemory", "1"],
            &["CONFIG", "SET", "maxmemory", "0"],
            "redis_oom",
        ),
        (
            &["REPLICAOF", "127.0.0.1", "1"],
            &["REPLICAOF", "NO", "ONE"],
            "redis_readonly",
        ),
    ];
    for plain in [false, true] {
        let sink = if plain {
            redis_sink(&server.url(), "").await
        } else {
            sink.clone()
        };
        for (trouble, mend, code) in table {
            run(trouble).await;
            let verdict = sink.deliver(&numbered(1)).await;
            is(&verdict, Outcome::Retry, code);
            assert_eq!(verdict.about, About::Sink);
            run(mend).await;
        }
    }
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered);
    assert_eq!(
        verdict.result.unwrap().get("duplicate"),
        None,
        "what was refused was not remembered"
    );
}

#[tokio::test]
async fn logins_are_checked_and_rejections_reported() {
    let server = RedisServer::start_with(&["--requirepass", "tulip"]).await;
    for options in ["", "password = \"wrong\""] {
        let sink = redis_sink(&server.url(), options).await;
        let verdict = sink.deliver(&numbered(1)).await;
        is(&verdict, Outcome::Retry, "unauthorized");
        assert_eq!(verdict.about, About::Sink);
        assert!(!format!("{verdict:?} {sink:?}").contains("wrong"));
    }
    let sink = redis_sink(&server.url(), "password = \"tulip\"").await;
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");

    // A user who may do nothing but add, and one who may not even that.
    let client = redis::Client::open(format!("redis://:tulip@{}", server.address())).unwrap();
    let mut admin = client.get_multiplexed_async_connection().await.unwrap();
    for (user, may, outcome) in [
        ("ada", "+xadd", Outcome::Delivered),
        ("bob", "+get", Outcome::Retry),
    ] {
        let mut acl = cmd("ACL");
        acl.arg(&["SETUSER", user, "on", ">rose", "~orders", may]);
        let (): () = acl.query_async(&mut admin).await.unwrap();
        let login = format!("user = \"{user}\"\npassword = \"rose\"");
        let sink = redis_sink(&server.url(), &login).await;
        let verdict = sink.deliver(&numbered(1)).await;
        assert_eq!(verdict.outcome, outcome, "{verdict:?}");
    }
}

#[tokio::test]
async fn deliveries_that_are_given_up_do_not_harm_others() {
    let server = RedisServer::start().await;
    let sink = redis_sink(&server.url(), "").await;
    give_up(&*sink, 30).await;
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
}

#[tokio::test]
async fn tls_is_spoken_with_whom_the_file_trusts() {
    let (cert, key) = (data("server.pem"), data("server.key"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let options = [
        "--tls-cert-file",
        cert,
        "--tls-key-file",
        key,
        "--tls-ca-cert-file",
        cert,
        "--tls-auth-clients",
        "no",
    ];
    let server = RedisServer::start_tls(&options).await;
    let url = server.url().replace("redis://", "rediss://");
    let sink = redis_sink(&url, "").await;
    is(
        &sink.deliver(&numbered(1)).await,
        Outcome::Retry,
        "connect_failed",
    );

    let sink = redis_sink(&url, &format!("ca_file = {:?}", data("ca.pem"))).await;
    let verdict = sink.deliver(&numbered(1)).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");

    let text = format!(
        "kind = \"redis\"\nurl = \"redis://h\"\nstream = \"s\"\nca_file = {:?}",
        data("ca.pem")
    );
    let error = try_sink(&text).await.unwrap_err().to_string();
    assert!(error.contains("rediss://"), "{error}");
}
