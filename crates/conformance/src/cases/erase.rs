//! Erasure: content goes, history stays, and who did it and why.

use consign_kernel::{
    By, ErasureAnswer, ErasureResult, ErasureTarget, Explanation, Filter, LateResult, MessageId,
    Move, NewMessage, OnDead, Outcome, Payload, RedrivePlan, Report, StateKind,
};
use serde_json::{Map, Value, json};

use crate::{
    Harness,
    stage::{Stage, by, ids, ordered, refused, s},
};

/// The operator who erases, who is not the one of other actions.
fn eraser() -> By {
    By::new("grace", "request 12 of a customer")
}

impl Stage<'_> {
    /// Erases what a target names; returns the answers by id.
    pub(super) async fn erase(&self, target: &ErasureTarget) -> Vec<(MessageId, ErasureAnswer)> {
        let results = self.store.erase(target, &eraser()).await;
        let results = results.expect("erase answers");
        let ids: Vec<MessageId> = results.iter().map(|result| result.id).collect();
        assert!(ids.is_sorted(), "by ascending id: {ids:?}");
        let pair = |ErasureResult { id, answer }| (id, answer);
        results.into_iter().map(pair).collect()
    }

    pub(super) async fn erase_ids(&self, ids: &[MessageId]) -> Vec<ErasureAnswer> {
        let results = self.erase(&ErasureTarget::Ids(ids.to_vec())).await;
        results.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Erases a message that can be erased.
    pub(super) async fn erase_one(&self, id: MessageId) {
        assert_eq!(self.erase_ids(&[id]).await, [ErasureAnswer::Erased]);
    }

    pub(super) async fn late_of(&self, id: MessageId) -> Vec<LateResult> {
        self.store.late(id).await.expect("late answers")
    }
}

/// A message with everything that an erasure removes.
pub(super) fn letter(stage: &Stage<'_>) -> NewMessage {
    let mut letter = NewMessage {
        payload: json!({"name": "Jane Doe", "amount": 1.50}).into(),
        ..stage.message(0)
    };
    let headers = [("correlation_id", "case-7"), ("to", "jane@example.org")];
    letter.headers = headers
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .into_iter()
        .collect();
    letter
}

/// A report with a detail and a result.
fn report(id: MessageId, outcome: Outcome) -> Report {
    Report {
        code: Some("refused".into()),
        detail: Some("Jane Doe has moved".into()),
        result: Some(json!({"to": "Jane Doe"})),
        retry_in: Some(s(0)),
        ..Report::new(id, outcome)
    }
}

/// Loses a lease of a message and reports its outcome late; then ends the message.
async fn eventful(stage: &Stage<'_>, message: NewMessage, end: Outcome) -> MessageId {
    let id = stage.enqueue_all(&[message]).await[0];
    let lost = stage.claim(1).await;
    stage.crash().await;
    let late = [report(id, Outcome::Retry)];
    let kept = stage.store.record_late(lost.token, &late).await;
    assert_eq!(kept.expect("record_late answers"), [id]);
    for outcome in [Outcome::Retry, end] {
        let lease = stage.claim(1).await;
        stage.settle(&lease, &[report(id, outcome)]).await;
    }
    id
}

pub(crate) async fn an_erasure_removes_content_and_keeps_history(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut digests = Vec::new();
    for (end, key) in [(Outcome::Delivered, "a"), (Outcome::Dead, "b")] {
        let message = letter(&stage).with_key(key).with_group("g");
        let id = eventful(&stage, message, end).await;
        let (before, mut history) = (stage.explain(id).await, stage.history(id).await);
        let mut late = stage.late_of(id).await;
        assert_eq!((history.len(), late.len()), (3, 1));
        stage.advance(s(7)).await;
        stage.erase_one(id).await;
        for attempt in &mut history {
            (attempt.detail, attempt.result) = (None, None);
        }
        (late[0].detail, late[0].result) = (None, None);
        assert_eq!(stage.history(id).await, history, "all but the content");
        assert_eq!(stage.late_of(id).await, late);

        let after = stage.explain(id).await;
        let erasure = after.erased.clone().expect("the erasure is on record");
        assert_eq!(erasure.at, stage.now().await);
        assert_eq!(erasure.actor, eraser().actor);
        assert_eq!(erasure.reason, eraser().reason);
        let is_hex = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
        assert!(erasure.digest.len() == 64 && erasure.digest.chars().all(is_hex));
        digests.push(erasure.digest);
        assert_eq!(after.message.payload, Payload::from(Value::Null));
        assert_eq!(after.message.headers, Map::new());
        assert_eq!(after.message.key, before.message.key, "the key stays");
        assert_eq!(after.message.group, before.message.group);
        assert_eq!(after.state.kind(), before.state.kind());
        let sentence = after.sentence();
        assert!(sentence.contains("erased at"), "{sentence}");
        assert!(sentence.contains("grace: request 12"), "{sentence}");
        assert!(!sentence.contains("`consign requeue"), "{sentence}");
        assert!(!format!("{after:?}").contains("Jane"), "{after:?}");
    }
    assert_eq!(digests[0], digests[1], "equal payloads");
    let other = stage.delivered(1).await[0];
    stage.erase_one(other).await;
    let other = stage.explain(other).await.erased.expect("it is erased");
    assert_ne!(other.digest, digests[0], "another payload");
    let dead = stage.store.dead(&Filter::default(), None, 10).await;
    let dead = dead.expect("dead answers").items;
    assert_eq!((dead[0].code.as_str(), &dead[0].detail), ("refused", &None));
    let findings = stage.store.doctor().await.expect("doctor answers");
    assert_eq!(findings, []);
}

pub(crate) async fn an_erasure_is_in_the_audit_and_in_lists(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.delivered(2).await;
    stage.erase_one(sent[0]).await;
    let audit = stage.store.audit(Some(sent[0]), None, 10).await;
    let audit = audit.expect("audit answers");
    assert_eq!(audit.len(), 1);
    assert_eq!((&*audit[0].action, &*audit[0].actor), ("erase", "grace"));
    assert_eq!(audit[0].reason, eraser().reason);
    assert_eq!(audit[0].queue.as_ref(), Some(&stage.queue));
    let listed = stage.store.list(&Filter::default(), None, 10).await;
    let listed = listed.expect("list answers").items;
    let erased: Vec<bool> = listed.iter().map(|message| message.erased).collect();
    assert_eq!(erased, [false, true], "newest first");
    let revealed = stage.store.reveal(sent[0], &by()).await;
    let revealed = revealed.expect("reveal answers").expect("it is there");
    assert_eq!(revealed.payload, Payload::from(Value::Null));
}

pub(crate) async fn what_is_not_final_is_not_erased(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let leased = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let scheduled = stage.message(0).with_delay(s(60));
    let scheduled = stage.enqueue_all(&[scheduled]).await[0];
    let grouped = stage.enqueue_groups("aa").await;
    let held = stage.enqueue_one().await;
    let moved = stage.store.hold(&[held], &by()).await;
    moved.expect("hold answers");
    let all = [leased, scheduled, grouped[0], grouped[1], held];
    let mut before: Vec<Explanation> = Vec::new();
    for id in all {
        before.push(stage.explain(id).await);
    }
    let expected = |explanation: &Explanation| ErasureAnswer::NotFinal {
        state: explanation.state.kind(),
    };
    let expected: Vec<ErasureAnswer> = before.iter().map(expected).collect();
    assert_eq!(stage.erase_ids(&all).await, expected);
    for (id, before) in all.iter().zip(before) {
        assert_eq!(stage.explain(*id).await, before, "as it was");
        let audit = stage.store.audit(Some(*id), None, 10).await;
        let audit = audit.expect("audit answers");
        assert!(audit.iter().all(|entry| entry.action != "erase"));
    }
    // An ended lease that no claim has taken back yet is still a lease.
    stage.advance(s(100)).await;
    let state = StateKind::Leased;
    assert_eq!(
        stage.erase_ids(&ids(&lease)).await,
        [ErasureAnswer::NotFinal { state }]
    );
}

pub(crate) async fn erasing_again_changes_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.delivered(2).await;
    stage.erase_one(sent[0]).await;
    let before = stage.explain(sent[0]).await.erased;
    stage.advance(s(5)).await;
    let twice = [sent[1], sent[0], sent[1], MessageId(i64::MAX)];
    use ErasureAnswer::{AlreadyErased, Erased, NoSuchMessage};
    assert_eq!(
        stage.erase_ids(&twice).await,
        [AlreadyErased, Erased, NoSuchMessage],
        "each once, by id"
    );
    assert_eq!(stage.explain(sent[0]).await.erased, before);
    assert_eq!(stage.history_of(&stage.queue).await.erased, 2);
    assert_eq!(stage.erase_ids(&[]).await, []);
}

pub(crate) async fn messages_are_erased_by_key(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &crate::stage::policy()).await;
    let in_other = NewMessage {
        queue: other.clone(),
        ..letter(&stage).with_key("k")
    };
    let sent = [letter(&stage).with_key("k"), letter(&stage).with_key("l")];
    let sent = stage.enqueue_all(&sent).await;
    stage.drain().await;
    let in_other = stage.enqueue_all(&[in_other]).await[0];
    let of_key = |queue: &consign_kernel::QueueName, key: &str| ErasureTarget::Key {
        queue: queue.clone(),
        key: key.to_owned(),
    };
    let mail = stage.queue.clone();
    let erased = stage.erase(&of_key(&mail, "k")).await;
    assert_eq!(erased, [(sent[0], ErasureAnswer::Erased)]);
    let again = stage.erase(&of_key(&mail, "k")).await;
    assert_eq!(again, [(sent[0], ErasureAnswer::AlreadyErased)]);
    let state = StateKind::Ready;
    let not_final = stage.erase(&of_key(&other, "k")).await;
    assert_eq!(not_final, [(in_other, ErasureAnswer::NotFinal { state })]);
    for nothing in ["m", "", "\0", "k\0"] {
        assert_eq!(stage.erase(&of_key(&mail, nothing)).await, []);
    }
    let nowhere = crate::stage::queue("nowhere");
    assert_eq!(stage.erase(&of_key(&nowhere, "k")).await, []);
    assert_eq!(stage.explain(sent[1]).await.erased, None);
}

pub(crate) async fn messages_are_erased_by_correlation_id(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let of_case = |id: &str, after: Option<MessageId>| ErasureTarget::Correlation {
        id: id.to_owned(),
        after,
    };
    let long = "case-7".repeat(60);
    let other_case = |text: &str| {
        let mut message = letter(&stage);
        let id = Value::from(text);
        message.headers.insert("correlation_id".into(), id);
        message
    };
    // Two texts that differ after the part that an index may hold.
    let others = [other_case(&long), other_case(&format!("{long}8"))];
    let messages: Vec<NewMessage> = (0..1_002).map(|_| letter(&stage)).collect();
    let sent = stage.enqueue_all(&messages).await;
    let others = stage.enqueue_all(&others).await;
    // The first one of the case is not final: it must not hide the others.
    let held = stage.store.hold(&sent[..1], &by()).await;
    held.expect("hold answers");
    stage.drain().await;
    let first = stage.erase(&of_case("case-7", None)).await;
    assert_eq!(first.len(), 1_000, "so many in one transaction");
    let state = StateKind::Held;
    assert_eq!(first[0], (sent[0], ErasureAnswer::NotFinal { state }));
    let rest = stage.erase(&of_case("case-7", Some(sent[999]))).await;
    let erased = |id: &MessageId| (*id, ErasureAnswer::Erased);
    let expected: Vec<_> = sent[1_000..].iter().map(erased).collect();
    assert_eq!(rest, expected);
    let again = stage.erase(&of_case("case-7", None)).await;
    assert_eq!(again, first[..1], "the others have none any more");
    for nothing in ["case", "case-", "\0"] {
        assert_eq!(stage.erase(&of_case(nothing, None)).await, []);
    }
    let of_long = stage.erase(&of_case(&long, None)).await;
    assert_eq!(of_long, [(others[0], ErasureAnswer::Erased)]);
    assert_eq!(stage.explain(others[1]).await.erased, None);
    let filter = Filter {
        correlation_id: Some("case-7".into()),
        ..Filter::default()
    };
    let listed = stage.store.list(&filter, None, 10).await;
    assert_eq!(listed.expect("list answers").items.len(), 1);
}

pub(crate) async fn an_erased_message_is_not_sent_again(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(3).await;
    stage.erase_one(dead[1]).await;
    let before = stage.explain(dead[1]).await;
    let moved = stage.store.requeue(&dead[1..2], &by()).await;
    assert_eq!(moved.expect("requeue answers")[0].answer, Move::Erased);
    assert_eq!(stage.explain(dead[1]).await, before);
    let state = StateKind::Dead;
    let held = stage.store.hold(&dead[1..2], &by()).await;
    let held = held.expect("hold answers")[0].answer;
    assert_eq!(held, Move::NotHoldable { state });

    let plan = RedrivePlan::default();
    let first = stage.store.first_dead(&plan, 10).await;
    let first = first.expect("first_dead answers");
    let first: Vec<MessageId> = first.iter().map(|letter| letter.message_id).collect();
    assert_eq!(first, [dead[0], dead[2]]);
    stage.start(&plan).await;
    let redrive = stage.step(100).await.expect("a redrive runs");
    assert_eq!((redrive.moved, redrive.skipped), (2, 1));
    use StateKind::{Dead, Ready};
    assert_eq!(stage.kinds(&dead).await, [Ready, Dead, Ready]);
}

pub(crate) async fn a_late_result_of_an_erased_message_has_no_content(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_all(&[letter(&stage)]).await[0];
    let lost = stage.claim(1).await;
    stage.crash().await;
    stage.drain().await;
    stage.erase_one(id).await;
    let late = [report(id, Outcome::Delivered)];
    let kept = stage.store.record_late(lost.token, &late).await;
    assert_eq!(kept.expect("record_late answers"), [id]);
    let late = stage.late_of(id).await;
    assert_eq!(late[0].code.as_deref(), Some("refused"), "the code stays");
    assert_eq!((&late[0].detail, &late[0].result), (&None, &None));
    let findings = stage.store.doctor().await.expect("doctor answers");
    assert_eq!(findings, []);
}

pub(crate) async fn a_key_is_compared_after_its_message_was_erased(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let message = |payload: &str| NewMessage {
        payload: payload.parse().expect("invariant: JSON"),
        ..stage.message(0).with_key("k").with_group("g")
    };
    let id = stage.enqueue_all(&[message(r#"{"a": 1.50}"#)]).await[0];
    stage.drain().await;
    stage.erase_one(id).await;
    for equal in [r#"{"a": 1.50}"#, r#"{"a": 1.5}"#] {
        let answers = stage.try_enqueue(&[message(equal)]).await;
        let answer = answers.expect("enqueue answers")[0];
        assert_eq!((answer.id, answer.duplicate), (id, true), "{equal}");
        assert_eq!(answer.state, StateKind::Delivered);
    }
    for other in [r#"{"a": 1.51}"#, "null"] {
        let answer = stage.try_enqueue(&[message(other)]).await;
        refused(answer, "key_conflict");
    }
    let other_group = message(r#"{"a": 1.5}"#).with_group("h");
    refused(stage.try_enqueue(&[other_group]).await, "key_conflict");
    let dead = stage.dead_one().await;
    stage.erase_one(dead).await;
    stage.claim_nothing("nothing was enqueued").await;
}

pub(crate) async fn a_dead_head_of_a_blocked_group_is_not_erased(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("ab").await;
    let next = stage.enqueue_groups("a").await[0];
    let lease = stage.claim(10).await;
    stage.bury(&lease, "gone").await;
    let state = StateKind::Waiting;
    use ErasureAnswer::{BlocksGroup, Erased, NotFinal};
    assert_eq!(
        stage.erase_ids(&[sent[0], sent[1], next]).await,
        [BlocksGroup, BlocksGroup, NotFinal { state }]
    );
    let moved = stage.store.requeue(&sent, &by()).await;
    moved.expect("requeue answers");
    assert_eq!(stage.drain().await, [sent[0], sent[1], next]);
    assert_eq!(stage.erase_ids(&[sent[0], next]).await, [Erased, Erased]);
    // Where the group goes on, nothing waits for the dead.
    stage.add_queue("mail", &ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(1).await;
    stage.bury(&lease, "gone").await;
    assert_eq!(stage.erase_ids(&sent[..1]).await, [Erased]);
    assert_eq!(stage.drain().await, sent[1..]);
}

pub(crate) async fn an_erasure_needs_a_name_a_reason_and_a_bound(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.delivered(1).await[0];
    let target = ErasureTarget::Ids(vec![id]);
    for by in [By::new("", "why"), By::new("ada", " ")] {
        refused(stage.store.erase(&target, &by).await, "invalid_input");
    }
    let many = ErasureTarget::Ids(vec![id; 1_001]);
    refused(stage.store.erase(&many, &by()).await, "invalid_input");
    assert_eq!(stage.explain(id).await.erased, None);
}
