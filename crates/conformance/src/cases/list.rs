//! Lists: newest first, in pages, filtered.

use consign_kernel::{Claim, Filter, MessageId, NewMessage, OnDead, Outcome, Report, StateKind};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, by, ordered, policy, s, settled},
};

pub(crate) async fn a_list_runs_from_the_newest_in_pages(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut sent = stage.enqueue(7).await;
    sent.reverse();
    let mut before = None;
    let mut pages = Vec::new();
    loop {
        let page = stage.store.list(&Filter::default(), before, 3).await;
        let page = page.expect("list answers");
        pages.push(page.items.iter().map(|l| l.id).collect::<Vec<_>>());
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(pages, [&sent[..3], &sent[3..6], &sent[6..]]);
    let exact = stage
        .store
        .list(&Filter::default(), None, 7)
        .await
        .expect("list answers");
    assert_eq!(
        (exact.items.len(), exact.next),
        (7, None),
        "no empty last page"
    );
    let below = stage.store.list(&Filter::default(), Some(sent[6]), 7).await;
    assert_eq!(below.expect("list answers").items, [], "nothing is older");
}

pub(crate) async fn a_listed_message_shows_where_it_is(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let message = stage.message(1).with_key("k").with_group("g");
    let created_at = stage.now().await;
    let id = stage.enqueue_all(&[message]).await[0];
    let lease = stage.claim(1).await;
    stage.report(&lease, id, Outcome::Retry).await;
    stage.advance(s(1)).await;
    stage.claim(1).await;
    let page = stage.store.list(&Filter::default(), None, 10).await;
    let listed = page.expect("list answers").items.remove(0);
    assert_eq!((listed.id, listed.queue), (id, stage.queue.clone()));
    assert_eq!(
        (listed.key.as_deref(), listed.group.as_deref()),
        (Some("k"), Some("g"))
    );
    assert_eq!(listed.created_at, created_at);
    assert_eq!((listed.state, listed.attempts), (StateKind::Leased, 1));
}

/// A waiting, ready, leased, held, dead and delivered message, in that order, and one elsewhere.
async fn gallery(stage: &Stage<'_>) -> Vec<MessageId> {
    let other = stage.add_queue("other", &policy()).await;
    let message = |n: usize, group: &str| stage.message(n).with_group(group).with_key(group);
    let elsewhere = NewMessage::new(other.clone(), json!(0)).with_key("dead");
    let waiting = stage.message(0).with_group("leased").with_key("waiting");
    let batch = [
        message(1, "leased"),
        message(2, "dead"),
        message(3, "delivered"),
        waiting,
        message(4, "held"),
        message(5, "ready"),
        elsewhere,
    ];
    let sent = stage.enqueue_all(&batch).await;
    let lease = stage.claim(3).await;
    let dead = Report {
        code: Some("gone".into()),
        ..Report::new(sent[1], Outcome::Dead)
    };
    settled(
        stage
            .settle(&lease, &[dead, Report::delivered(sent[2])])
            .await,
    );
    stage
        .store
        .hold(&sent[4..5], &by())
        .await
        .expect("hold answers");
    let there = stage
        .store
        .claim(&Claim::new(other, "w", 1))
        .await
        .expect("claim answers");
    let there = there.expect("one is there");
    let report = Report::new(sent[6], Outcome::Dead);
    settled(stage.settle(&there, &[report]).await);
    [3, 5, 0, 4, 1, 2, 6].map(|n| sent[n]).to_vec()
}

pub(crate) async fn a_list_can_be_filtered(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = gallery(&stage).await;
    let elsewhere = sent[6];
    let listed = async |filter: Filter| {
        let page = stage
            .store
            .list(&filter, None, 100)
            .await
            .expect("list answers");
        page.items.iter().map(|l| l.id).collect::<Vec<_>>()
    };
    // The discarded are listed in discard.rs.
    for (state, id) in StateKind::ALL.into_iter().zip(&sent[..6]) {
        let filter = Filter {
            queue: Some(stage.queue.clone()),
            state: Some(state),
            ..Filter::default()
        };
        assert_eq!(listed(filter).await, [*id], "{state}");
    }
    let key = |key: &str| Filter {
        key: Some(key.into()),
        ..Filter::default()
    };
    assert_eq!(listed(key("held")).await, [sent[3]]);
    assert_eq!(
        listed(key("dead")).await,
        [elsewhere, sent[4]],
        "in every queue"
    );
    assert_eq!(listed(key("hel")).await, [], "the whole key");
    let code = |code: &str| Filter {
        code: Some(code.into()),
        ..Filter::default()
    };
    assert_eq!(listed(code("gone")).await, [sent[4]]);
    assert_eq!(listed(code("dead")).await, [elsewhere]);
    let never = Filter {
        state: Some(StateKind::Ready),
        ..code("gone")
    };
    assert_eq!(listed(never).await, [], "a code belongs to the dead");
    let other = Filter {
        queue: Some(crate::stage::queue("other")),
        ..Filter::default()
    };
    assert_eq!(listed(other).await, [elsewhere]);
    let ghost = Filter {
        queue: Some(crate::stage::queue("ghost")),
        ..Filter::default()
    };
    assert_eq!(listed(ghost).await, [], "an unknown queue has no messages");
}

fn case(id: &str) -> Filter {
    Filter {
        correlation_id: Some(id.into()),
        ..Filter::default()
    }
}

async fn ids(stage: &Stage<'_>, filter: &Filter) -> Vec<MessageId> {
    let page = stage.store.list(filter, None, 100).await;
    let page = page.expect("list answers");
    assert_eq!(page.next, None);
    page.items.iter().map(|listed| listed.id).collect()
}

pub(crate) async fn a_case_is_found_by_its_correlation_id(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let of_case = |mut message: NewMessage, id: &str| {
        message.headers.insert("correlation_id".into(), json!(id));
        message
    };
    let batch = [
        of_case(stage.message(0), "one"),
        of_case(stage.message(1).with_key("k"), "one"),
        of_case(stage.message(2), "two"),
        stage.message(3),
        of_case(
            NewMessage::new(other.clone(), json!(4)).with_key("k"),
            "one",
        ),
        of_case(stage.message(5), "one"),
    ];
    let sent = stage.enqueue_all(&batch).await;
    let all = [sent[5], sent[4], sent[1], sent[0]];
    assert_eq!(ids(&stage, &case("one")).await, all, "in every queue");
    assert_eq!(ids(&stage, &case("on")).await, [], "the whole of it");
    assert_eq!(ids(&stage, &case("one%")).await, []);

    let first = stage.store.list(&case("one"), None, 3).await;
    let first = first.expect("list answers");
    assert_eq!((first.items.len(), first.next), (3, Some(sent[1])));
    let rest = stage.store.list(&case("one"), first.next, 3).await;
    let rest = rest.expect("list answers");
    assert_eq!((rest.items[0].id, rest.items.len()), (sent[0], 1));
    assert_eq!(rest.next, None);

    let lease = stage.claim(2).await;
    let gone = Report {
        code: Some("gone".into()),
        ..Report::new(sent[0], Outcome::Dead)
    };
    settled(
        stage
            .settle(&lease, &[gone, Report::delivered(sent[1])])
            .await,
    );
    stage
        .store
        .hold(&sent[5..], &by())
        .await
        .expect("hold answers");
    let queue = Filter {
        queue: Some(other.clone()),
        ..case("one")
    };
    assert_eq!(ids(&stage, &queue).await, [sent[4]]);
    let places = [
        (StateKind::Dead, vec![sent[0]]),
        (StateKind::Delivered, vec![sent[1]]),
        (StateKind::Held, vec![sent[5]]),
        (StateKind::Ready, vec![sent[4]]),
        (StateKind::Leased, vec![]),
        (StateKind::Waiting, vec![]),
    ];
    for (state, expected) in places {
        let filter = Filter {
            state: Some(state),
            ..case("one")
        };
        assert_eq!(ids(&stage, &filter).await, expected, "{state}");
    }
    a_case_by_code_and_key(&stage, &sent).await;
}

/// The first of the case is dead, the second is delivered and has the key of the fifth.
async fn a_case_by_code_and_key(stage: &Stage<'_>, sent: &[MessageId]) {
    let code = |code: &str| Filter {
        code: Some(code.into()),
        ..case("one")
    };
    assert_eq!(ids(stage, &code("gone")).await, [sent[0]]);
    assert_eq!(ids(stage, &code("other")).await, []);
    let key = |id: &str| Filter {
        key: Some("k".into()),
        ..case(id)
    };
    assert_eq!(ids(stage, &key("one")).await, [sent[4], sent[1]]);
    assert_eq!(ids(stage, &key("two")).await, []);
    let delivered = Filter {
        state: Some(StateKind::Delivered),
        ..key("one")
    };
    assert_eq!(ids(stage, &delivered).await, [sent[1]]);
}

/// Only a text is a correlation id, and long ones are compared in full.
pub(crate) async fn a_correlation_id_is_a_text_of_any_length(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let with = |n: usize, name: &str, value: serde_json::Value| {
        let mut message = stage.message(n);
        message.headers.insert(name.into(), value);
        message
    };
    // Nothing that a store could make shorter by itself.
    let mut seed = 1_u64;
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + u8::try_from((seed >> 33) % 26).expect("a letter"))
    };
    let long: String = (0..20_000).map(|_| letter()).collect();
    let batch = [
        with(0, "correlation_id", json!(5)),
        with(1, "correlation_id", json!({"a": 1})),
        with(2, "correlation_id", json!(true)),
        with(3, "note", json!("\"correlation_id\": \"5\"")),
        with(4, "correlation_id", json!(format!("{long}1"))),
        with(5, "correlation_id", json!(format!("{long}2"))),
        with(6, "correlation_id", json!("")),
        with(7, "correlation_id", json!("é\"\\ 🙂")),
    ];
    let sent = stage.enqueue_all(&batch).await;
    for text in ["5", "{\"a\": 1}", "{\"a\":1}", "true", "1", &long] {
        let text_start: String = text.chars().take(10).collect();
        assert_eq!(ids(&stage, &case(text)).await, [], "{text_start}");
    }
    assert_eq!(ids(&stage, &case(&format!("{long}1"))).await, [sent[4]]);
    assert_eq!(ids(&stage, &case(&format!("{long}2"))).await, [sent[5]]);
    assert_eq!(ids(&stage, &case("")).await, [sent[6]]);
    assert_eq!(ids(&stage, &case("é\"\\ 🙂")).await, [sent[7]]);
}

pub(crate) async fn filtered_pages_lose_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(9).await;
    let even: Vec<MessageId> = sent.iter().copied().step_by(2).collect();
    stage.store.hold(&even, &by()).await.expect("hold answers");
    let filter = Filter {
        state: Some(StateKind::Held),
        ..Filter::default()
    };
    let first = stage
        .store
        .list(&filter, None, 2)
        .await
        .expect("list answers");
    assert_eq!(
        first.items.iter().map(|l| l.id).collect::<Vec<_>>(),
        [sent[8], sent[6]]
    );
    let rest = stage
        .store
        .list(&filter, first.next, 9)
        .await
        .expect("list answers");
    let found: Vec<_> = rest.items.iter().map(|l| l.id).collect();
    assert_eq!(found, [sent[4], sent[2], sent[0]]);
    assert_eq!(rest.next, None);
}

pub(crate) async fn the_dead_are_listed_with_their_cause(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(5).await;
    let lease = stage.claim(5).await;
    for (n, id) in sent.iter().enumerate() {
        let report = Report {
            code: Some(if n % 2 == 0 { "even" } else { "odd" }.into()),
            detail: (n == 0).then(|| "the first".into()),
            ..Report::new(*id, Outcome::Dead)
        };
        settled(stage.settle(&lease, &[report]).await);
        stage.advance(s(1)).await;
    }
    let page = stage
        .store
        .dead(&Filter::default(), None, 2)
        .await
        .expect("dead answers");
    let newest: Vec<_> = page.items.iter().map(|l| l.message_id).collect();
    assert_eq!(newest, [sent[4], sent[3]], "newest first");
    let page = stage.store.dead(&Filter::default(), page.next, 3).await;
    let page = page.expect("dead answers");
    assert_eq!((page.items.len(), page.next), (3, None));
    let letter = &page.items[2];
    assert_eq!((letter.message_id, &letter.queue), (sent[0], &stage.queue));
    assert_eq!((letter.at, letter.attempt_no), (lease.claimed_at, 1));
    assert_eq!(
        (letter.code.as_str(), letter.detail.as_deref()),
        ("even", Some("the first"))
    );
    let listed = stage.store.list(&Filter::default(), Some(sent[1]), 1).await;
    let listed = listed.expect("list answers").items.remove(0);
    assert_eq!(
        (listed.code.as_deref(), listed.detail.as_deref()),
        (Some("even"), Some("the first")),
        "every list has the cause"
    );
    let odd = Filter {
        queue: Some(stage.queue.clone()),
        code: Some("odd".into()),
        // Looked at by `list` only.
        state: Some(StateKind::Ready),
        key: Some("no such key".into()),
        correlation_id: Some("no such case".into()),
        ..Filter::default()
    };
    let page = stage
        .store
        .dead(&odd, None, 10)
        .await
        .expect("dead answers");
    let odd: Vec<_> = page.items.iter().map(|l| l.message_id).collect();
    assert_eq!(odd, [sent[3], sent[1]]);
    let elsewhere = Filter {
        queue: Some(stage.add_queue("other", &policy()).await),
        ..Filter::default()
    };
    let page = stage
        .store
        .dead(&elsewhere, None, 10)
        .await
        .expect("dead answers");
    assert_eq!(page.items, []);
}
