use consign_kernel::{Message, QueueName};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::*;
use crate::budget::Budget;

fn message(id: i64) -> ClaimedMessage {
    ClaimedMessage {
        message: Message {
            id: MessageId(id),
            queue: "a".parse::<QueueName>().unwrap(),
            key: None,
            group: None,
            payload: Value::Null.into(),
            headers: Map::new(),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
        },
        attempt_no: 1,
        tries: 0,
        in_doubt: false,
    }
}

fn flying(id: i64, begun: bool) -> RunningDelivery {
    RunningDelivery {
        id: MessageId(id),
        since: Instant::now(),
        begun,
        abort: AbortHandle::new_pair().0,
    }
}

fn held(change: impl FnOnce(&mut OwnedLease)) -> OwnedLease {
    let lease = Lease {
        token: Token(uuid::Uuid::nil()),
        fence: Fence(1),
        claimed_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
        messages: Vec::new(),
    };
    let clock = LeaseClock::new(Instant::now(), Duration::from_secs(1));
    let mut held = OwnedLease::new(lease, Arc::new(clock), Budget::new(0).reserve(0));
    change(&mut held);
    held
}

fn check(table: Vec<(&str, OwnedLease, Step)>) {
    for (name, held, expected) in table {
        assert_eq!(held.next_step(), expected, "{name}");
    }
}

fn result() -> Report {
    Report::delivered(MessageId(9))
}

#[test]
fn results_are_recorded_together_or_after_their_window() {
    let beside_a_slow_neighbour = |change: fn(&mut OwnedLease)| {
        held(|h| {
            h.finished.push(result());
            h.flying.push(flying(1, false));
            change(h);
        })
    };
    let all_finished = |change: fn(&mut OwnedLease)| {
        held(|h| {
            h.finished.push(result());
            change(h);
        })
    };
    check(vec![
        ("nothing left", held(|_| {}), Step::End),
        (
            "waiting",
            held(|h| h.waiting.push_back(message(1))),
            Step::Rest,
        ),
        (
            "under way",
            held(|h| h.flying.push(flying(1, false))),
            Step::Rest,
        ),
        ("all finished", all_finished(|_| {}), Step::Settle),
        (
            "one operation at a time",
            all_finished(|h| h.is_busy = true),
            Step::Rest,
        ),
        (
            "the lease is lost",
            all_finished(|h| h.is_lost = true),
            Step::RecordLate,
        ),
        (
            "a slow neighbour",
            beside_a_slow_neighbour(|_| {}),
            Step::Rest,
        ),
        (
            "after the window",
            beside_a_slow_neighbour(|h| h.is_due = true),
            Step::Settle,
        ),
    ]);
}

#[test]
fn a_release_leaves_alone_what_was_started() {
    let giving_back = |change: fn(&mut OwnedLease)| {
        held(|h| {
            h.releases_waiting = true;
            h.waiting.push_back(message(3));
            change(h);
        })
    };
    check(vec![
        ("nothing was started", giving_back(|_| {}), Step::Release),
        (
            "results first, or they would be released",
            giving_back(|h| h.finished.push(result())),
            Step::Settle,
        ),
        (
            "then what is under way is recorded as begun",
            giving_back(|h| h.flying.extend([flying(1, true), flying(2, false)])),
            Step::Begin(vec![MessageId(2)]),
        ),
        (
            "then the release",
            giving_back(|h| h.flying.push(flying(1, true))),
            Step::Release,
        ),
        (
            "nothing waits",
            giving_back(|h| {
                h.waiting.clear();
                h.flying.push(flying(1, false));
            }),
            Step::Rest,
        ),
    ]);
}

#[test]
fn a_lease_lives_from_when_the_claim_was_sent_and_renewals_never_shorten_it() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let clock = LeaseClock::new(start, Duration::from_millis(300));
    assert!(clock.is_alive(at(299)) && !clock.is_alive(at(300)));
    clock.prolong(at(100), Duration::from_millis(300));
    assert!(clock.is_alive(at(399)) && !clock.is_alive(at(400)));
    clock.prolong(at(150), Duration::from_millis(10));
    assert!(clock.is_alive(at(399)));
}

#[test]
fn a_message_is_sent_within_the_time_it_had_when_it_was_claimed() {
    let held = held(|_| {});
    let mut expiring = message(1).message;
    assert_eq!(held.send_until(&expiring), None);
    let since = held.clock.since;
    for seconds in [0, 90] {
        let left = Duration::from_secs(seconds);
        expiring.expires_at = Some(held.claimed_at + left);
        assert_eq!(held.send_until(&expiring), Some(since + left));
    }
    held.clock
        .prolong(since + Duration::from_secs(60), Duration::from_secs(600));
    assert_eq!(
        held.send_until(&expiring),
        Some(since + Duration::from_secs(90)),
        "a renewal changes nothing"
    );
}
