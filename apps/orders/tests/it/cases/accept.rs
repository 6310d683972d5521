//! Entering orders into the ledger.

use std::sync::Arc;

use consign_conformance::stage::{after, all, policy, queue, refused, s};
use consign_kernel::{MessageId, NewMessage, Outcome};
use consign_orders::{AcceptResult, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder, QUEUE};
use serde_json::json;
use tokio::task::JoinSet;

use super::LedgerHarness;
use super::fixture::{
    OrdersFixture, TTL, client, digest, ended, is_conflict, is_new, is_same, key, order, order_of,
    real_order, twisted,
};

pub(crate) async fn an_accepted_order_is_a_row_and_a_message(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let now = fixture.stage.now().await;
    let order = NewOrder {
        headers: [("traceparent".to_owned(), "00-abc".into())]
            .into_iter()
            .collect(),
        max_age: Some(s(60)),
        ..order("key-0001")
    };
    let answer = fixture.accept_one(&order).await;
    let AcceptResult::New(entry) = &answer else {
        panic!("new: {answer:?}")
    };
    let expected = LedgerEntry {
        client: client("desk-1"),
        key: key("key-0001"),
        request_digest: digest("key-0001"),
        result_digest: None,
        status: LedgerStatus::Accepted,
        first_seen_at: now,
        last_seen_at: now,
        expires_at: after(now, TTL),
        order_expires_at: Some(after(now, s(60))),
        response: None,
        http_status: 201,
        outbox_id: entry.outbox_id,
        conflicts: 0,
        sent: None,
    };
    assert_eq!(*entry, expected);
    assert_eq!(fixture.entry(&order).await, expected, "as it was answered");
    let id = entry.outbox_id.expect("a message");
    let lease = fixture.claim(id).await;
    let message = &lease.messages[0].message;
    assert_eq!(message.key.as_deref(), Some("desk-1/key-0001"));
    assert_eq!(message.payload, order.payload);
    assert_eq!(message.headers, order.headers);
}

pub(crate) async fn results_are_in_input_order(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let known = order("key-0500");
    fixture.enter(&known).await;
    let name = |n: usize| format!("key-{:04}", (n * 7_919) % 1_000);
    let mut orders: Vec<NewOrder> = (1..=40).map(|n| order(&name(n))).collect();
    orders[20] = known;
    let answers = fixture.accept(&orders).await;
    for (at, (order, answer)) in orders.iter().zip(&answers).enumerate() {
        assert_eq!(answer.entry().key, order.key, "answer {at}");
        assert_eq!(is_same(answer), at == 20, "answer {at}");
    }
    let fresh = answers.iter().filter(|answer| is_new(answer));
    let ids: Vec<MessageId> = fresh.filter_map(|a| a.entry().outbox_id).collect();
    assert!(ids.is_sorted(), "messages in input order: {ids:?}");
}

pub(crate) async fn an_accept_of_nothing_answers_nothing(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    assert_eq!(fixture.accept(&[]).await, []);
}
pub(crate) async fn a_repeated_order_is_the_same_and_writes_no_message(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let id = fixture.enter(&order).await;
    let before = fixture.entry(&order).await;
    let another = harness.another_ledger().await;
    // What the server fills in differs from call to call, the digest does not.
    let mut again = order.clone();
    again.payload["order"]["requested_at"] = "2027-01-15T08:00:07Z".into();
    let answers = another.accept(std::slice::from_ref(&again)).await;
    assert_eq!(answers.expect("answers"), [AcceptResult::Same(before)]);
    fixture
        .settle(id, Outcome::Delivered, "EXECUTED", &ended(200, "ok"))
        .await;
    let answer = fixture.accept_one(&again).await;
    assert!(is_same(&answer), "{answer:?}");
    assert_eq!(answer.entry().status, LedgerStatus::Succeeded);
    assert_eq!(fixture.message_count().await, 1);
}

/// The row is left as it was, byte by byte.
pub(crate) async fn a_key_with_another_body_is_a_conflict_in_every_state(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let accepted = order("key-0001");
    fixture.enter(&accepted).await;
    let _lease = fixture.stage.claim(10).await;
    let succeeded = fixture.succeeded("key-0002").await;
    let failed = fixture.failed("key-0003").await;
    // A replay this late is noted; a conflict is not one.
    fixture.stage.advance(s(61)).await;
    for (order, status) in [
        (&accepted, LedgerStatus::Accepted),
        (&succeeded, LedgerStatus::Succeeded),
        (&failed, LedgerStatus::Failed),
    ] {
        let before = fixture.entry(order).await;
        assert_eq!(before.status, status, "as it is meant to be");
        for count in 1..=2 {
            let answer = fixture.accept_one(&twisted(order)).await;
            assert!(is_conflict(&answer), "{answer:?}");
            let expected = LedgerEntry {
                conflicts: count,
                ..before.clone()
            };
            assert_eq!(*answer.entry(), expected);
            assert_eq!(fixture.entry(order).await, expected);
        }
        assert!(is_same(&fixture.accept_one(order).await));
    }
    assert_eq!(fixture.message_count().await, 3);
}

pub(crate) async fn a_key_twice_in_one_call_counts_as_two_calls(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let first = order("key-0002");
    let calls = [
        first.clone(),
        order("key-0001"),
        first.clone(),
        twisted(&first),
    ];
    let answers = fixture.accept(&calls).await;
    let kinds = [is_new, is_new, is_same, is_conflict];
    for (at, (is_kind, answer)) in kinds.iter().zip(&answers).enumerate() {
        assert!(is_kind(answer), "answer {at}: {answer:?}");
    }
    assert_eq!(answers[2].entry().outbox_id, answers[0].entry().outbox_id);
    assert_eq!(answers[3].entry().request_digest, digest("key-0002"));
    assert_eq!(fixture.entry(&first).await.conflicts, 1);
    assert_eq!(fixture.message_count().await, 2);
}

pub(crate) async fn orders_are_accepted_all_or_none(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let mut large = order("key-0002");
    large.payload["body"] = "x".repeat(2 << 20).into();
    let calls = [order("key-0001"), large, order("key-0003")];
    let answer = fixture.ledger.accept(&calls).await;
    refused(answer, "payload_too_large");
    assert_eq!(fixture.message_count().await, 0);
    for call in &calls {
        let entry = fixture.ledger.entry(&call.client, &call.key).await;
        assert_eq!(entry.expect("entry answers"), None, "neither row");
    }
}

pub(crate) async fn orders_need_their_queue(harness: &dyn LedgerHarness) {
    let ledger = harness.ledger();
    let order = order("key-0001");
    let answer = ledger.accept(std::slice::from_ref(&order)).await;
    refused(answer, "unknown_queue");
    let entry = ledger.entry(&order.client, &order.key).await;
    assert_eq!(entry.expect("entry answers"), None);
}

/// Such an order could not be distinguished from another: the ledger would never update it.
pub(crate) async fn an_order_whose_payload_lacks_its_digest_is_refused(
    harness: &dyn LedgerHarness,
) {
    let fixture = OrdersFixture::new(harness).await;
    let mut order = order("key-0001");
    order.payload["request_digest"] = digest("something else").into();
    let orders = [super::fixture::order("key-0002"), order.clone()];
    refused(fixture.ledger.accept(&orders).await, "invalid_input");
    refused(
        fixture.ledger.open_direct(&order, s(5)).await,
        "invalid_input",
    );
    assert_eq!(fixture.message_count().await, 0);
}

pub(crate) async fn a_replay_is_noted_once_a_minute(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    fixture.enter(&order).await;
    let start = fixture.stage.now().await;
    // When it comes, and when it is last seen then.
    for (seconds, seen) in [(59, 0), (60, 60), (100, 60), (119, 60), (120, 120)] {
        let now = fixture.stage.now().await;
        let until = after(start, s(seconds));
        fixture
            .stage
            .harness
            .advance(until.duration_since(now))
            .await;
        let answer = fixture.accept_one(&order).await;
        let entry = answer.entry();
        assert_eq!(entry.last_seen_at, after(start, s(seen)), "{seconds} s");
        assert_eq!(entry.first_seen_at, start);
        assert_eq!(entry.expires_at, after(start, TTL), "a replay buys no time");
        assert_eq!(fixture.entry(&order).await, *entry);
    }
}

pub(crate) async fn keys_of_two_clients_never_meet(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let mine = fixture.succeeded("key-0001").await;
    let yours = order_of("desk-2", "key-0001", "key-0001");
    let answer = fixture.accept_one(&yours).await;
    assert!(is_new(&answer), "{answer:?}");
    assert_eq!(answer.entry().response, None);
    let other = order_of("desk-3", "key-0001", "another body");
    assert!(is_new(&fixture.accept_one(&other).await), "no conflict");
    assert_eq!(fixture.entry(&mine).await.status, LedgerStatus::Succeeded);
    assert_eq!(fixture.entry(&yours).await.status, LedgerStatus::Accepted);
    assert_eq!(fixture.message_count().await, 3);
}

pub(crate) async fn keys_are_compared_byte_by_byte(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    // Composed and decomposed, cases, spaces, wildcards: eight keys.
    let names = [
        "key-caf\u{e9}",
        "key-cafe\u{301}",
        "KEY-caf\u{e9}",
        "key-caf\u{e9} ",
        " key-caf\u{e9}",
        "key%0001",
        "key_0001",
        "key'\"\\;--",
    ];
    let orders: Vec<NewOrder> = names.map(|name| order_of("desk-1", name, name)).into();
    let answers = fixture.accept(&orders).await;
    assert!(answers.iter().all(is_new), "{answers:?}");
    let again = fixture.accept(&orders).await;
    for (order, answer) in orders.iter().zip(&again) {
        assert!(is_same(answer), "{:?}: {answer:?}", order.key);
        assert_eq!(answer.entry().key, order.key);
    }
}
pub(crate) async fn fifty_identical_orders_at_once_are_one(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let another = harness.another_ledger().await;
    let mut tasks = JoinSet::new();
    for n in 0..50 {
        let ledger = Arc::clone(if n % 2 == 0 {
            &fixture.ledger
        } else {
            &another
        });
        tasks.spawn(async move {
            let answers = ledger.accept(&[order("key-0001")]).await;
            answers.expect("accept answers").remove(0)
        });
    }
    let answers = all(tasks).await;
    let news = answers.iter().filter(|answer| is_new(answer)).count();
    let sames = answers.iter().filter(|answer| is_same(answer)).count();
    assert_eq!((news, sames), (1, 49));
    let ids: Vec<_> = answers.iter().map(|a| a.entry().outbox_id).collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    assert_eq!(fixture.message_count().await, 1);
    assert_eq!(fixture.entry(&order("key-0001")).await.conflicts, 0);
}

/// Calls that share keys in opposite orders, replays, conflicts and settles beside them.
pub(crate) async fn mixed_orders_at_once_end_without_a_deadlock(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let name = |n: usize| format!("key-{n:04}");
    let first: Vec<NewOrder> = (0..10).map(|n| order(&name(n))).collect();
    fixture.accept(&first).await;
    fixture.stage.advance(s(61)).await;
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let ledger = Arc::clone(&fixture.ledger);
        tasks.spawn(async move {
            let mut orders: Vec<NewOrder> = (0..20).map(|n| order(&name(n))).collect();
            orders.extend((0..5).map(|n| twisted(&order(&name(n)))));
            if task % 2 == 0 {
                orders.reverse();
            }
            ledger.accept(&orders).await.expect("accept answers");
        });
    }
    let store = fixture.stage.store.clone();
    let ask = fixture.stage.ask(5);
    tasks.spawn(async move {
        while let Some(lease) = store.claim(&ask).await.expect("claim answers") {
            let report = |m: &consign_kernel::ClaimedMessage| {
                let ended = ended(200, "ok");
                super::fixture::report(m.message.id, Outcome::Delivered, "EXECUTED", &ended)
            };
            let reports: Vec<_> = lease.messages.iter().map(report).collect();
            let settled = store.settle(lease.token, &reports).await;
            settled.expect("settle answers");
        }
    });
    all(tasks).await;
    assert_eq!(fixture.message_count().await, 20);
    for n in 0..5 {
        assert!(fixture.entry(&order(&name(n))).await.conflicts >= 4, "{n}");
    }
}

/// A copy would be sent a second time, and a message under a key to come would keep its order out.
/// A rejection does not reveal which keys are in use.
pub(crate) async fn the_queue_of_orders_takes_nothing_else(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let mail = fixture.stage.add_queue("mail", &policy()).await;
    let taken = order("key-0001");
    fixture.enter(&taken).await;
    let to_come = order("key-0002");
    let plain = |order: &NewOrder| NewMessage::new(queue(QUEUE), order.payload.clone());
    for message in [
        plain(&taken),
        plain(&taken).with_key(taken.message_key()),
        plain(&twisted(&taken)).with_key(taken.message_key()),
        plain(&to_come).with_key(to_come.message_key()),
        NewMessage::new(queue(QUEUE), json!("no order at all")),
    ] {
        let alone = fixture
            .stage
            .try_enqueue(std::slice::from_ref(&message))
            .await;
        refused(alone, "invalid_input");
        let beside = [NewMessage::new(mail.clone(), json!(1)), message];
        refused(fixture.stage.try_enqueue(&beside).await, "invalid_input");
    }
    assert_eq!(fixture.message_count().await, 1);
    assert!(
        is_new(&fixture.accept_one(&to_come).await),
        "its key is free"
    );
}

/// Rounding is visible: the sent amounts are reported at acceptance, in every repeat and in a read.
pub(crate) async fn reports_the_sent_amounts_until_there_is_a_result(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = real_order("key-0001", r#","price":146.12345"#);
    let first = fixture.accept_one(&order).await;
    let sent = first.entry().sent.clone().expect("what is sent");
    assert_eq!(sent.qty.to_string(), "0.1", "of 0.1049");
    assert_eq!(sent.price.expect("a limit").to_string(), "146.123");
    assert_eq!(sent.warnings.len(), 2, "{sent:?}");
    let again = fixture.accept_one(&order).await;
    assert!(is_same(&again), "{again:?}");
    assert_eq!(again.entry().sent.as_ref(), Some(&sent));
    assert_eq!(fixture.entry(&order).await.sent.as_ref(), Some(&sent));
    let listed = fixture
        .ledger
        .entries(&LedgerFilter::default(), None, 1)
        .await;
    assert_eq!(listed.expect("a list")[0].sent.as_ref(), Some(&sent));
    let id = first.entry().outbox_id.expect("a message");
    fixture
        .settle(id, Outcome::Delivered, "EXECUTED", &ended(200, "ok"))
        .await;
    assert_eq!(
        fixture.entry(&order).await.sent,
        None,
        "it is in the result"
    );

    let direct = real_order("key-0002", "");
    let opened = fixture.ledger.open_direct(&direct, s(10)).await;
    let opened = opened.expect("open answers").entry().sent.clone();
    let known = fixture.entry(&direct).await.sent;
    assert_eq!(opened, known);
    assert_eq!(known.expect("what is sent").price, None);
}
