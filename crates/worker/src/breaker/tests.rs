use super::*;

const OPTIONS: BreakerOptions = BreakerOptions {
    failures_max: 3,
    failure_ratio: 0.5,
    samples_min: 10,
    window: Duration::from_secs(10),
    last_calls: 0,
    pause_min: Duration::from_secs(1),
    pause_max: Duration::from_secs(3),
};

/// What happens, and the state it leads to. `chance` is 0.5 throughout: no jitter.
enum Step {
    Good,
    Bad,
    ProbeGood,
    ProbeBad,
    GiveBack,
    Admit(Admission),
    PassMs(u64),
}
use Step::{Admit, Bad, GiveBack, Good, PassMs, ProbeBad, ProbeGood};

fn check(name: &str, steps: &[(Step, BreakerState)]) {
    let start = Instant::now();
    let mut now = start;
    let mut breaker = Breaker::new(now, OPTIONS);
    for (index, (step, expected)) in steps.iter().enumerate() {
        match step {
            Good => breaker.succeeded(now, 1, false),
            Bad => breaker.failed(now, false, 0.5),
            ProbeGood => breaker.succeeded(now, 1, true),
            ProbeBad => breaker.failed(now, true, 0.5),
            GiveBack => breaker.return_probe(),
            PassMs(ms) => now += Duration::from_millis(*ms),
            Admit(Admission::WaitUntil(_)) => {
                let answer = breaker.admit(now);
                let waits = matches!(answer, Admission::WaitUntil(_));
                assert!(waits, "{name}, step {index}: {answer:?}");
            }
            Admit(admission) => {
                assert_eq!(breaker.admit(now), *admission, "{name}, step {index}");
            }
        }
        assert_eq!(breaker.state(), *expected, "{name}, step {index}");
    }
}

#[test]
fn failures_in_a_row_open_it_and_successes_between_do_not() {
    use BreakerState::{Closed, Open};
    check("in a row", &[(Bad, Closed), (Bad, Closed), (Bad, Open)]);
    check(
        "with a success between",
        &[
            (Bad, Closed),
            (Bad, Closed),
            (Good, Closed),
            (Bad, Closed),
            (Bad, Closed),
        ],
    );
}

#[test]
fn half_of_the_deliveries_failing_opens_it() {
    let now = Instant::now();
    let mut breaker = Breaker::new(now, OPTIONS);
    for round in 0..4 {
        breaker.succeeded(now, 1, false);
        breaker.failed(now, false, 0.5);
        assert_eq!(
            breaker.state(),
            BreakerState::Closed,
            "round {round}: too few to say"
        );
    }
    breaker.succeeded(now, 1, false);
    breaker.failed(now, false, 0.5);
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn old_failures_are_forgotten() {
    let start = Instant::now();
    let mut breaker = Breaker::new(start, OPTIONS);
    for second in 0..40 {
        let now = start + Duration::from_secs(second);
        breaker.succeeded(now, 1, false);
        if second % 2 == 0 {
            breaker.failed(now, false, 0.5);
        }
    }
    assert_eq!(
        breaker.state(),
        BreakerState::Closed,
        "a third of them failing is bearable"
    );
}

#[test]
fn one_probe_at_a_time_and_its_result_decides() {
    use BreakerState::{Closed, HalfOpen, Open};
    let wait = || Admit(Admission::WaitUntil(Instant::now()));
    check(
        "a good probe closes it",
        &[
            (Bad, Closed),
            (Bad, Closed),
            (Bad, Open),
            (wait(), Open),
            (PassMs(1_000), Open),
            (Admit(Admission::Probe), HalfOpen),
            (Admit(Admission::WaitForProbe), HalfOpen),
            (ProbeGood, Closed),
            (Admit(Admission::Free), Closed),
            (Bad, Closed),
        ],
    );
    check(
        "a bad probe opens it for longer, up to the cap",
        &[
            (Bad, Closed),
            (Bad, Closed),
            (Bad, Open),
            (PassMs(1_000), Open),
            (Admit(Admission::Probe), HalfOpen),
            (ProbeBad, Open),
            (PassMs(1_999), Open),
            (wait(), Open),
            (PassMs(1), Open),
            (Admit(Admission::Probe), HalfOpen),
            (ProbeBad, Open),
            (PassMs(3_000), Open),
            (Admit(Admission::Probe), HalfOpen),
        ],
    );
}

#[test]
fn stragglers_decide_nothing_and_a_probe_given_back_can_be_taken_again() {
    use BreakerState::{Closed, HalfOpen, Open};
    check(
        "stragglers",
        &[
            (Bad, Closed),
            (Bad, Closed),
            (Bad, Open),
            (Good, Open),
            (Bad, Open),
            (PassMs(1_000), Open),
            (Admit(Admission::Probe), HalfOpen),
            (Good, HalfOpen),
            (Bad, HalfOpen),
            (GiveBack, HalfOpen),
            (Admit(Admission::Probe), HalfOpen),
        ],
    );
}

#[test]
fn pauses_are_spread() {
    let now = Instant::now();
    let pause = |chance| {
        let mut breaker = Breaker::new(now, OPTIONS);
        for _ in 0..3 {
            breaker.failed(now, false, chance);
        }
        match breaker.admit(now) {
            Admission::WaitUntil(until) => (until - now).as_millis(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((pause(0.0), pause(0.5)), (800, 1_000));
}

/// The last 20 calls, more than half of them failed.
#[test]
fn a_share_of_the_last_calls_opens_it_however_long_ago_they_were() {
    let options = BreakerOptions {
        failures_max: u32::MAX,
        samples_min: u32::MAX,
        last_calls: 20,
        ..OPTIONS
    };
    // One letter a call; whether the last of them opens it.
    let table = [
        ("b".repeat(19), false),
        ("b".repeat(20), true),
        ("gb".repeat(10), false),
        (format!("{}b", "gb".repeat(10)), true),
        (format!("{}{}", "g".repeat(1_000), "b".repeat(10)), false),
        (format!("{}{}", "g".repeat(1_000), "b".repeat(11)), true),
        (format!("{}{}b", "b".repeat(10), "g".repeat(10)), false),
    ];
    for (calls, opens) in table {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(now, options);
        for call in calls.chars() {
            assert_eq!(breaker.state(), BreakerState::Closed, "too early: {calls}");
            now += Duration::from_secs(3_600);
            match call {
                'g' => breaker.succeeded(now, 1, false),
                _ => breaker.failed(now, false, 0.5),
            }
        }
        assert_eq!(breaker.state() == BreakerState::Open, opens, "{calls}");
    }
}

#[test]
fn many_successes_at_once_push_failures_out_of_the_last_calls() {
    let mut recent = Recent::default();
    let options = BreakerOptions {
        last_calls: 64,
        failure_ratio: 0.0,
        ..OPTIONS
    };
    recent.add(1, true);
    assert!(!recent.is_bad(&options), "one call is no evidence");
    recent.add(63, false);
    assert!(recent.is_bad(&options));
    recent.add(1, false);
    assert!(!recent.is_bad(&options));
    recent.add(1, true);
    recent.add(u32::MAX, false);
    assert!(!recent.is_bad(&options));
}
