use serde_json::json;

use super::*;
use crate::{AttemptOutcome, Payload, QueuePolicy};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("a time")
}

/// A message at second 100, in a queue named mail.
fn explanation(state: State, last_attempt: Option<LastAttempt>) -> Explanation {
    let queue: QueueName = "mail".parse().expect("a name");
    Explanation {
        message: Message {
            id: MessageId(7),
            queue: queue.clone(),
            key: None,
            group: None,
            payload: Payload::from(json!(1)),
            headers: serde_json::Map::new(),
            created_at: at(0),
            expires_at: None,
        },
        state,
        queue: Queue {
            name: queue,
            policy: QueuePolicy::default(),
            paused_at: None,
        },
        attempts: last_attempt.as_ref().map_or(0, |last| last.attempt_no),
        last_attempt,
        erased: None,
        now: at(100),
    }
}

fn last(outcome: AttemptOutcome, code: &str, detail: Option<&str>) -> Option<LastAttempt> {
    Some(LastAttempt {
        attempt_no: 2,
        outcome,
        owner: "w1".into(),
        finished_at: at(90),
        code: Some(code.into()),
        detail: detail.map(Into::into),
    })
}

/// Whatever a worker tried has the reason of its last attempt in its sentence, and none says that no
/// worker claimed it.
#[test]
fn what_a_worker_tried_is_explained_by_its_last_attempt() {
    let leased = |expires: i64| State::Leased {
        owner: "w2".into(),
        fence: Fence(9),
        expires_at: at(expires),
        begun: false,
    };
    let held = |reason: &str| State::Held {
        at: at(95),
        reason: reason.into(),
    };
    let states = [
        State::Ready { due_at: at(50) },
        State::Ready { due_at: at(130) },
        leased(110),
        leased(99),
        held("legal asks"),
        held(codes::UNCERTAIN),
        State::Waiting { behind: None },
        State::Waiting {
            behind: Some(MessageId(6)),
        },
    ];
    let tried = last(AttemptOutcome::Retry, "http_503", Some("come back later"));
    let reason =
        "attempt 2 by w1 ended in retry (http_503: come back later) at 2027-01-15T08:01:30.000Z";
    for state in states {
        for paused_at in [None, Some(at(80))] {
            let mut told = explanation(state.clone(), tried.clone());
            told.queue.paused_at = paused_at;
            let sentence = told.sentence();
            assert!(sentence.contains(reason), "{sentence}");
            assert!(!sentence.contains("no worker"), "{sentence}");
        }
    }
}

#[test]
fn a_message_that_is_retried_has_its_next_time() {
    let tried = last(AttemptOutcome::Retry, "http_503", None);
    let told = explanation(State::Ready { due_at: at(130) }, tried);
    let expected = "Due later, at 2027-01-15T08:02:10.000Z: attempt 2 by w1 ended in retry (http_503) at \
                    2027-01-15T08:01:30.000Z.";
    assert_eq!(told.sentence(), expected);
}

#[test]
fn a_lost_lease_explains_why_a_message_is_claimed_apart() {
    let tried = last(AttemptOutcome::Expired, codes::LEASE_EXPIRED, None);
    let sentence = explanation(State::Ready { due_at: at(90) }, tried).sentence();
    assert!(
        sentence.contains("attempt 2 by w1 ended in expired (lease_expired)"),
        "{sentence}"
    );
    assert!(
        sentence.contains("claimed in smaller batches"),
        "{sentence}"
    );
}

#[test]
fn what_no_worker_tried_asks_for_one() {
    let sentence = explanation(State::Ready { due_at: at(50) }, None).sentence();
    assert!(
        sentence.contains("no worker holds it. Is one running for queue mail?"),
        "{sentence}"
    );
}

#[test]
fn a_long_detail_is_cut() {
    let told = last(AttemptOutcome::Retry, "x", Some(&"é".repeat(300)));
    let text = told.expect("an attempt").to_string();
    assert!(text.contains(&format!("{}…)", "é".repeat(200))), "{text}");
}
