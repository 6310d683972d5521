use consign_kernel::{LaneName, Message};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::*;

fn message(id: i64) -> ClaimedMessage {
    ClaimedMessage {
        message: Message {
            id: MessageId(id),
            lane: "a".parse::<LaneName>().unwrap(),
            key: None,
            group: None,
            payload: Value::Null,
            headers: Map::new(),
            created_at: Timestamp::UNIX_EPOCH,
        },
        attempt_no: 1,
        tries: 0,
        in_doubt: false,
    }
}

fn flying(id: i64, begun: bool) -> Flying {
    Flying {
        id: MessageId(id),
        since: Instant::now(),
        begun,
        abort: AbortHandle::new_pair().0,
    }
}

fn held(change: impl FnOnce(&mut Held)) -> Held {
    let lease = Lease {
        token: Token(uuid::Uuid::nil()),
        fence: Fence(1),
        claimed_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
        messages: Vec::new(),
    };
    let clock = LeaseClock::new(Instant::now(), Duration::from_secs(1));
    let mut held = Held::new(lease, Arc::new(clock));
    change(&mut held);
    held
}

#[test]
fn the_next_step_follows_from_the_facts() {
    let result = || Report::delivered(MessageId(9));
    let table: Vec<(&str, Held, Step)> = vec![
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
        (
            "all finished",
            held(|h| h.finished.push(result())),
            Step::Settle,
        ),
        (
            "a result beside a slow neighbour",
            held(|h| {
                h.finished.push(result());
                h.flying.push(flying(1, false));
            }),
            Step::Rest,
        ),
        (
            "the same after the window",
            held(|h| {
                h.finished.push(result());
                h.flying.push(flying(1, false));
                h.is_due = true;
            }),
            Step::Settle,
        ),
        (
            "one operation at a time",
            held(|h| {
                h.finished.push(result());
                h.is_busy = true;
            }),
            Step::Rest,
        ),
        (
            "results before a release, or they would be given back",
            held(|h| {
                h.finished.push(result());
                h.waiting.push_back(message(1));
                h.gives_back = true;
            }),
            Step::Settle,
        ),
        (
            "what is under way is begun before a release",
            held(|h| {
                h.flying.extend([flying(1, true), flying(2, false)]);
                h.waiting.push_back(message(3));
                h.gives_back = true;
            }),
            Step::Begin(vec![MessageId(2)]),
        ),
        (
            "then released",
            held(|h| {
                h.flying.push(flying(1, true));
                h.waiting.push_back(message(3));
                h.gives_back = true;
            }),
            Step::Release,
        ),
        (
            "nothing waits, nothing to release",
            held(|h| {
                h.flying.push(flying(1, false));
                h.gives_back = true;
            }),
            Step::Rest,
        ),
        (
            "results of a lost lease",
            held(|h| {
                h.finished.push(result());
                h.is_lost = true;
            }),
            Step::Witness,
        ),
    ];
    for (name, held, expected) in table {
        assert_eq!(held.next_step(), expected, "{name}");
    }
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
