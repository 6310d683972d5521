//! A suite that has never failed is no evidence: each broken twin must be caught.

use std::{collections::BTreeSet, time::Duration};

use consign_conformance::{EQUIVALENCE_OPS, ReferenceFactory, cases, difference, run};
use consign_kernel::reference::Flaw;

/// The cases that fail over a twin with this flaw.
async fn caught_by(flaw: Flaw) -> BTreeSet<&'static str> {
    let mut caught = BTreeSet::new();
    // The twins are wrong without concurrency; concurrent cases would only take time.
    let one_hand = |topic: &str| topic != "concurrency" && topic != "races";
    for case in cases().into_iter().filter(|case| one_hand(case.topic)) {
        let examined = tokio::spawn(async move {
            run(case.name, &ReferenceFactory::flawed(flaw)).await;
        });
        if examined.await.is_err_and(|error| error.is_panic()) {
            caught.insert(case.name);
        }
    }
    caught
}

#[tokio::test(flavor = "multi_thread")]
async fn counting_a_crash_against_all_messages_is_detected() {
    let caught = caught_by(Flaw::NoSoloRule).await;
    for case in [
        "an_expiry_does_not_count_for_messages_that_share_a_lease",
        "poison_is_isolated_and_its_neighbours_delivered",
    ] {
        assert!(caught.contains(case), "{case} is among {caught:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn letting_any_token_settle_is_caught() {
    let caught = caught_by(Flaw::NoTokenCheck).await;
    for case in [
        "a_stale_lease_cannot_settle",
        "an_unknown_token_cannot_settle",
        "a_token_settles_its_own_lease_only",
    ] {
        assert!(caught.contains(case), "{case} is among {caught:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_for_a_token_is_caught_by_the_failover_alone() {
    let caught = caught_by(Flaw::CounterToken).await;
    let only = BTreeSet::from(["a_token_from_a_lost_timeline_is_refused"]);
    assert_eq!(
        caught, only,
        "in one timeline a counter is as good as a secret"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workers_clock_is_caught() {
    let caught = caught_by(Flaw::WorkerClock(Duration::from_secs(3600))).await;
    for case in [
        "every_time_is_the_databases",
        "two_instances_agree_on_when_a_lease_ends",
    ] {
        assert!(caught.contains(case), "{case} is among {caught:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_runs_find_flawed_stores() {
    for flaw in [Flaw::NoSoloRule, Flaw::NoTokenCheck] {
        let twin = ReferenceFactory::flawed(flaw);
        let found = difference(&twin, 0..64, EQUIVALENCE_OPS).await;
        let found = found.unwrap_or_else(|| panic!("{flaw:?} is found out"));
        assert!(found.steps() <= 8, "{flaw:?} in a few steps, not {found}");
    }
}
