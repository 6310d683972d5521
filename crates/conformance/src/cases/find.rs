//! Finding: lists narrowed by time, group, key and headers, and the causes of deaths.

use std::collections::BTreeMap;

use consign_kernel::{
    Cursor, DeadCause, Filter, MessageId, NewMessage, Outcome, Report, StateKind, Store,
};
use jiff::Timestamp;
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, by, policy, s, settled},
};

fn any() -> Filter {
    Filter::default()
}

fn headers<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let owned = pairs.map(|(name, text)| (name.to_owned(), text.to_owned()));
    owned.into()
}

/// All that a filter finds, page by page.
async fn walk(store: &dyn Store, filter: &Filter, limit: u32) -> Vec<MessageId> {
    let (mut found, mut before): (Vec<MessageId>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = store.list(filter, before, limit).await;
        let page = page.expect("list answers");
        assert!(page.items.len() <= limit as usize, "{filter:?}");
        found.extend(page.items.iter().map(|listed| listed.id));
        let Some(next) = page.next else { return found };
        let goes_on = before.is_none_or(|before| next < before);
        assert!(goes_on, "{filter:?}: it goes on");
        before = Some(next);
    }
}

/// Eight messages, a second apart, two of them in another queue.
struct Outage {
    sent: Vec<MessageId>,
    at: Vec<Timestamp>,
}

impl Outage {
    async fn new(stage: &Stage<'_>) -> Self {
        let other = stage.add_queue("other", &policy()).await;
        let with = |mut message: NewMessage, pairs: &[(&str, serde_json::Value)]| {
            let pairs = pairs.iter().cloned();
            let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
            message.headers.extend(pairs);
            message
        };
        let acme = ("tenant", json!("acme"));
        let there = |n| NewMessage::new(other.clone(), json!(n));
        let batch = [
            with(stage.message(0).with_key("invoice-1"), &[acme.clone()]),
            stage.message(1).with_key("invoice-2").with_group("north"),
            with(
                stage.message(2).with_group("north"),
                &[("tenant", json!(5))],
            ),
            there(3).with_key("invoice-3"),
            with(
                stage.message(4).with_key("order-1"),
                &[acme.clone(), ("kind", json!("it's \"odd\" %_"))],
            ),
            with(there(5).with_group("north"), &[acme]),
            with(
                stage.message(6).with_key("invoic"),
                &[("tenant", json!("acm"))],
            ),
            stage.message(7).with_key("invoice-é").with_group("north/2"),
        ];
        let (mut sent, mut at) = (Vec::new(), Vec::new());
        for message in batch {
            at.push(stage.now().await);
            sent.extend(stage.enqueue_all(&[message]).await);
            stage.advance(s(1)).await;
        }
        Self { sent, at }
    }

    /// Filters with the numbers of what they find, newest first.
    fn cases(&self, stage: &Stage<'_>) -> Vec<(Filter, Vec<usize>)> {
        let group = |text: &str| Filter {
            group: Some(text.into()),
            ..any()
        };
        let prefix = |text: &str| Filter {
            key_prefix: Some(text.into()),
            ..any()
        };
        let since = |n: usize| Filter {
            since: Some(self.at[n]),
            ..any()
        };
        let until = |n: usize| Filter {
            until: Some(self.at[n]),
            ..any()
        };
        let with = |pairs: &[(&str, &str)]| {
            let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
            Filter {
                headers: pairs.iter().map(owned).collect(),
                ..any()
            }
        };
        let here = Some(stage.queue.clone());
        let early = Timestamp::UNIX_EPOCH;
        vec![
            (group("north"), vec![5, 2, 1]),
            (group("nort"), vec![]),
            (prefix("invoice-"), vec![7, 3, 1, 0]),
            (prefix("invoice-é"), vec![7]),
            (prefix("INVOICE"), vec![]),
            (prefix("invoice_"), vec![]),
            (prefix(""), vec![7, 6, 4, 3, 1, 0]),
            (with(&[("tenant", "acme")]), vec![5, 4, 0]),
            (with(&[("tenant", "5")]), vec![]),
            (with(&[("kind", "it's \"odd\" %_")]), vec![4]),
            (
                with(&[("tenant", "acme"), ("kind", "it's \"odd\" %_")]),
                vec![4],
            ),
            (with(&[("tenant", "acme"), ("none", "")]), vec![]),
            (since(5), vec![7, 6, 5]),
            (until(2), vec![1, 0]),
            (
                Filter {
                    until: Some(self.at[6]),
                    ..since(4)
                },
                vec![5, 4],
            ),
            (
                Filter {
                    until: Some(self.at[4]),
                    ..since(4)
                },
                vec![],
            ),
            (
                Filter {
                    since: Some(early),
                    ..any()
                },
                vec![7, 6, 5, 4, 3, 2, 1, 0],
            ),
            (
                Filter {
                    until: Some(early),
                    ..any()
                },
                vec![],
            ),
            (
                Filter {
                    since: Some(Timestamp::MIN),
                    ..group("north")
                },
                vec![5, 2, 1],
            ),
            (
                Filter {
                    until: Some(Timestamp::MAX),
                    ..group("north")
                },
                vec![5, 2, 1],
            ),
            (
                Filter {
                    since: Some(Timestamp::MAX),
                    ..any()
                },
                vec![],
            ),
            (
                Filter {
                    queue: here.clone(),
                    ..group("north")
                },
                vec![2, 1],
            ),
            (
                Filter {
                    queue: here.clone(),
                    ..prefix("invoice-")
                },
                vec![7, 1, 0],
            ),
            (
                Filter {
                    key: Some("invoice-2".into()),
                    ..group("north")
                },
                vec![1],
            ),
            (
                Filter {
                    key: Some("invoice-2".into()),
                    ..prefix("order")
                },
                vec![],
            ),
            (
                Filter {
                    queue: here,
                    until: Some(self.at[4]),
                    ..prefix("i")
                },
                vec![1, 0],
            ),
        ]
    }
}

pub(crate) async fn a_list_is_narrowed_by_group_key_headers_and_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let outage = Outage::new(&stage).await;
    for (filter, numbers) in outage.cases(&stage) {
        let expected: Vec<MessageId> = numbers.iter().map(|n| outage.sent[*n]).collect();
        for limit in [1_000, 3, 1] {
            let found = walk(&*stage.store, &filter, limit).await;
            assert_eq!(found, expected, "{filter:?} {limit}");
        }
    }
}

/// However little a page looks at.
pub(crate) async fn narrow_pages_go_on_and_reach_everything(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let outage = Outage::new(&stage).await;
    for walk_max in [1, 5, 12] {
        let near = harness.another_with_short_walks(walk_max).await;
        for (filter, numbers) in outage.cases(&stage) {
            let expected: Vec<MessageId> = numbers.iter().map(|n| outage.sent[*n]).collect();
            let found = walk(&*near, &filter, 2).await;
            assert_eq!(found, expected, "{filter:?} {walk_max}");
        }
    }
}

/// Wherever a message is, and whatever it is looked for by.
pub(crate) async fn a_narrowed_list_can_be_of_one_state(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let grouped = |n: usize| {
        let mut message = stage.message(n).with_group("g").with_key(format!("k{n}"));
        message.headers.insert("tenant".into(), json!("acme"));
        message
            .headers
            .insert("correlation_id".into(), json!("one"));
        message
    };
    let sent = stage.enqueue_all(&[0, 1, 2, 3, 4].map(grouped)).await;
    stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let gone = Report {
        code: Some("gone".into()),
        ..Report::new(sent[0], Outcome::Dead)
    };
    settled(
        stage
            .settle(&lease, &[gone, Report::delivered(sent[1])])
            .await,
    );
    let held = stage.store.hold(&sent[3..4], &by()).await;
    held.expect("hold answers");
    let now = Some(stage.now().await);
    let narrow = [
        Filter {
            group: Some("g".into()),
            ..any()
        },
        Filter {
            key_prefix: Some("k".into()),
            ..any()
        },
        Filter {
            headers: headers([("tenant", "acme")]),
            ..any()
        },
        Filter {
            since: now,
            group: Some("g".into()),
            ..any()
        },
        Filter {
            correlation_id: Some("one".into()),
            group: Some("g".into()),
            ..any()
        },
    ];
    let states = [
        (StateKind::Dead, vec![sent[0]]),
        (StateKind::Delivered, vec![sent[1]]),
        (StateKind::Leased, vec![sent[2]]),
        (StateKind::Held, vec![sent[3]]),
        (StateKind::Ready, vec![sent[4]]),
        (StateKind::Waiting, vec![]),
    ];
    for walk_max in [1, 5, 10_000] {
        let near = harness.another_with_short_walks(walk_max).await;
        for filter in &narrow {
            for (state, expected) in &states {
                let filter = Filter {
                    state: Some(*state),
                    ..filter.clone()
                };
                assert_eq!(
                    &walk(&*near, &filter, 2).await,
                    expected,
                    "{filter:?} {walk_max}"
                );
            }
            for (code, expected) in [("gone", vec![sent[0]]), ("other", vec![])] {
                let filter = Filter {
                    code: Some(code.into()),
                    ..filter.clone()
                };
                assert_eq!(
                    walk(&*near, &filter, 2).await,
                    expected,
                    "{filter:?} {walk_max}"
                );
            }
        }
    }
}

pub(crate) async fn the_dead_are_grouped_by_queue_and_code(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let all = async |filter: &Filter, at_most: u64| {
        let causes = stage.store.dead_causes(filter, at_most).await;
        causes.expect("dead_causes answers")
    };
    assert_eq!(all(&any(), 10).await, []);
    let sent = stage.enqueue(4).await;
    let die = async |id: MessageId, code: &str| {
        let lease = stage.claim(1).await;
        let report = Report {
            code: Some(code.into()),
            detail: Some(format!("of {id}")),
            ..Report::new(id, Outcome::Dead)
        };
        settled(stage.settle(&lease, &[report]).await);
        stage.now().await
    };
    let first = die(sent[0], "http_500").await;
    stage.advance(s(5)).await;
    let second = die(sent[1], "refused").await;
    stage.advance(s(5)).await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[2], Outcome::Retry).await;
    let third = die(sent[3], "http_500").await;
    stage.advance(s(5)).await;
    let last = die(sent[2], "http_500").await;
    let elsewhere = NewMessage::new(other.clone(), json!(1));
    let there = stage.enqueue_all(&[elsewhere]).await[0];
    let claim = consign_kernel::Claim::new(other.clone(), "w", 1);
    let lease = stage.store.claim(&claim).await.expect("claim answers");
    let lease = lease.expect("one is there");
    settled(
        stage
            .settle(&lease, &[Report::new(there, Outcome::Dead)])
            .await,
    );

    let outage = DeadCause {
        queue: stage.queue.clone(),
        code: "http_500".into(),
        messages: 3,
        attempts_min: 1,
        attempts_max: 2,
        first_at: first,
        last_at: last,
        example: sent[3],
        detail: Some(format!("of {}", sent[3])),
    };
    let refused = DeadCause {
        queue: stage.queue.clone(),
        code: "refused".into(),
        messages: 1,
        attempts_min: 1,
        attempts_max: 1,
        first_at: second,
        last_at: second,
        example: sent[1],
        detail: Some(format!("of {}", sent[1])),
    };
    let elsewhere = DeadCause {
        queue: other.clone(),
        code: "dead".into(),
        example: there,
        first_at: last,
        last_at: last,
        detail: None,
        ..refused.clone()
    };
    let everything = [outage.clone(), refused.clone(), elsewhere.clone()];
    assert_eq!(all(&any(), 100).await, everything, "the largest first");
    let of = |queue: Option<_>, code: Option<&str>| Filter {
        queue,
        code: code.map(Into::into),
        ..any()
    };
    let here = Some(stage.queue.clone());
    assert_eq!(all(&of(here, None), 100).await, everything[..2]);
    assert_eq!(
        all(&of(None, Some("refused")), 100).await,
        [refused.clone()]
    );
    assert_eq!(all(&of(Some(other), Some("refused")), 100).await, []);
    assert_eq!(all(&of(None, Some("a\0")), 100).await, []);
    let newest = DeadCause {
        messages: 2,
        first_at: third,
        ..outage
    };
    assert_eq!(
        all(&any(), 3).await,
        [newest, elsewhere],
        "the newest three"
    );
    assert_eq!(all(&any(), 0).await, []);
}
