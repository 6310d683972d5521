//! Finding: lists narrowed by time, group, key and headers, and the causes of deaths.

use consign_kernel::{
    Claim, Cursor, DeadCause, Filter, MessageId, NewMessage, Outcome, Report, StateKind, Store,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, by, policy, s, settled},
};

fn any() -> Filter {
    Filter::default()
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

/// Eight messages, each further from the next than a search for a time allows for; two of them in
/// another queue.
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
            with(
                stage.message(0).with_key("invoice-1"),
                std::slice::from_ref(&acme),
            ),
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
            stage.advance(s(100)).await;
        }
        Self { sent, at }
    }

    /// Filters with the numbers of what they find, newest first.
    fn cases(&self, stage: &Stage<'_>) -> Vec<(Filter, Vec<usize>)> {
        let mut cases = by_text();
        cases.extend(self.by_time());
        let early = Some(Timestamp::UNIX_EPOCH);
        let here = |filter: Filter| Filter {
            queue: Some(stage.queue.clone()),
            ..filter
        };
        let until_fourth = between(None, Some(self.at[4]));
        cases.extend([
            (between(early, None), vec![7, 6, 5, 4, 3, 2, 1, 0]),
            (between(None, early), vec![]),
            (
                between(Some(Timestamp::MIN), Some(Timestamp::MAX)),
                vec![7, 6, 5, 4, 3, 2, 1, 0],
            ),
            (between(Some(Timestamp::MAX), None), vec![]),
            (here(group("north")), vec![2, 1]),
            (here(prefix("invoice-")), vec![7, 1, 0]),
            (here(both(prefix("i"), until_fourth)), vec![1, 0]),
        ]);
        cases
    }

    fn by_time(&self) -> Vec<(Filter, Vec<usize>)> {
        let at = |n: usize| Some(self.at[n]);
        let after = |n: usize| self.at[n].checked_add(SignedDuration::from_micros(1)).ok();
        vec![
            (between(at(5), None), vec![7, 6, 5]),
            (between(after(5), None), vec![7, 6]),
            (between(None, at(2)), vec![1, 0]),
            (between(None, after(2)), vec![2, 1, 0]),
            (between(at(4), at(6)), vec![5, 4]),
            (between(at(4), at(4)), vec![]),
            (both(group("north"), between(at(2), None)), vec![5, 2]),
            (both(prefix("invoice-"), between(at(1), at(7))), vec![3, 1]),
        ]
    }
}

/// The same for texts.
fn by_text() -> Vec<(Filter, Vec<usize>)> {
    let odd = "it's \"odd\" %_";
    let keyed = |filter: Filter| Filter {
        key: Some("invoice-2".into()),
        ..filter
    };
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
        (with(&[("kind", odd)]), vec![4]),
        (with(&[("tenant", "acme"), ("kind", odd)]), vec![4]),
        (with(&[("tenant", "acme"), ("none", "")]), vec![]),
        (keyed(group("north")), vec![1]),
        (keyed(prefix("order")), vec![]),
    ]
}

fn group(text: &str) -> Filter {
    Filter {
        group: Some(text.into()),
        ..any()
    }
}

fn prefix(text: &str) -> Filter {
    Filter {
        key_prefix: Some(text.into()),
        ..any()
    }
}

fn with(pairs: &[(&str, &str)]) -> Filter {
    let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
    Filter {
        headers: pairs.iter().map(owned).collect(),
        ..any()
    }
}

fn between(since: Option<Timestamp>, until: Option<Timestamp>) -> Filter {
    Filter {
        since,
        until,
        ..any()
    }
}

/// The first with the times of the second.
fn both(filter: Filter, times: Filter) -> Filter {
    Filter {
        since: times.since,
        until: times.until,
        ..filter
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
        group("g"),
        prefix("k"),
        with(&[("tenant", "acme")]),
        both(group("g"), between(now, None)),
        Filter {
            correlation_id: Some("one".into()),
            ..group("g")
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
    let codes = [("gone", vec![sent[0]]), ("other", vec![])];
    for walk_max in [1, 5, 10_000] {
        let near = harness.another_with_short_walks(walk_max).await;
        for filter in &narrow {
            for (state, expected) in &states {
                let mut filter = filter.clone();
                filter.state = Some(*state);
                assert_eq!(&walk(&*near, &filter, 2).await, expected, "{filter:?}");
            }
            for (code, expected) in &codes {
                let mut filter = filter.clone();
                filter.code = Some((*code).into());
                assert_eq!(&walk(&*near, &filter, 2).await, expected, "{filter:?}");
            }
        }
    }
}

/// One dead message with a code.
async fn die(stage: &Stage<'_>, id: MessageId, code: &str) -> Timestamp {
    let lease = stage.claim(1).await;
    let report = Report {
        code: Some(code.into()),
        detail: Some(format!("of {id}")),
        ..Report::new(id, Outcome::Dead)
    };
    settled(stage.settle(&lease, &[report]).await);
    stage.advance(s(5)).await;
    lease.claimed_at
}

/// The cause of one death.
fn single(stage: &Stage<'_>, id: MessageId, code: &str, at: Timestamp) -> DeadCause {
    DeadCause {
        queue: stage.queue.clone(),
        code: code.into(),
        messages: 1,
        attempts_min: 1,
        attempts_max: 1,
        first_at: at,
        last_at: at,
        recent: 1,
        before: 0,
        example: id,
        detail: Some(format!("of {id}")),
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
    let first = die(&stage, sent[0], "http_500").await;
    let second = die(&stage, sent[1], "refused").await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[2], Outcome::Retry).await;
    let third = die(&stage, sent[3], "http_500").await;
    let last = die(&stage, sent[2], "http_500").await;
    let elsewhere = NewMessage::new(other.clone(), json!(1));
    let there = stage.enqueue_all(&[elsewhere]).await[0];
    let claim = Claim::new(other.clone(), "w", 1);
    let lease = stage.store.claim(&claim).await.expect("claim answers");
    let lease = lease.expect("one is there");
    settled(
        stage
            .settle(&lease, &[Report::new(there, Outcome::Dead)])
            .await,
    );

    let outage = DeadCause {
        messages: 3,
        recent: 3,
        attempts_max: 2,
        last_at: last,
        ..single(&stage, sent[3], "http_500", first)
    };
    let refused = single(&stage, sent[1], "refused", second);
    let elsewhere = DeadCause {
        queue: other.clone(),
        detail: None,
        ..single(&stage, there, "dead", lease.claimed_at)
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
    assert_eq!(all(&of(None, Some("refused")), 100).await, [refused]);
    assert_eq!(all(&of(Some(other), Some("refused")), 100).await, []);
    assert_eq!(all(&of(None, Some("a\0")), 100).await, []);
    let newest = DeadCause {
        messages: 2,
        recent: 2,
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
