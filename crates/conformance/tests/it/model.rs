//! Exploring the reference store exhaustively, and its broken twins until they fail.
//!
//! `CONSIGN_MODEL_DEPTH=1` (2, 3, ...) adds that many leases and clock ticks to every world; each
//! makes the worlds many times larger.

use std::{
    collections::BTreeSet,
    env,
    time::{Duration, Instant},
};

use consign_conformance::model::{Action, Bounds, Rule, StoreModel};
use consign_kernel::reference::Flaw;
use stateright::{Checker, HasDiscoveries, Model};

#[test]
fn crashes_and_late_wakeups_break_no_rule() {
    explore(Bounds::crashes());
}

#[test]
fn no_outcome_breaks_a_rule() {
    explore(Bounds::outcomes());
}

#[test]
fn a_queue_that_holds_never_sends_twice_by_itself() {
    explore(Bounds::hold());
}

#[test]
fn failover_breaks_no_rule() {
    explore(Bounds::failover());
}

#[test]
fn failover_with_renewals_breaks_no_rule() {
    explore(Bounds::long_failover());
}

#[test]
fn a_message_that_expires_breaks_no_rule() {
    explore(Bounds::expiry());
}

#[test]
fn every_world_is_explored() {
    let names: BTreeSet<_> = Bounds::suite().iter().map(|bounds| bounds.name).collect();
    assert_eq!(names.len(), 6, "a world was added: explore it above");
}

#[test]
fn a_store_that_ignores_tokens_is_caught() {
    let path = shortest(Bounds::crashes(), Flaw::NoTokenCheck, Rule::OnlyTheLive);
    assert!(path.contains(&Action::Tick), "only after a lease has ended");
}

#[test]
fn a_store_that_counts_tokens_is_caught_by_failover() {
    let path = shortest(Bounds::failover(), Flaw::CounterToken, Rule::OnlyTheLive);
    assert!(path.contains(&Action::FailOver));
}

#[test]
fn a_store_that_counts_tokens_is_sound_without_failover() {
    let bounds = Bounds {
        leases: 3,
        ..Bounds::crashes()
    };
    let model = StoreModel::new(bounds).with_flaw(Flaw::CounterToken);
    model
        .checker()
        .threads(2)
        .spawn_bfs()
        .join()
        .assert_properties();
}

#[test]
fn a_store_that_blames_neighbours_is_caught() {
    shortest(Bounds::crashes(), Flaw::NoSoloRule, Rule::DeadForAReason);
}

#[test]
fn a_store_that_trusts_workers_clocks_is_caught() {
    let flaw = Flaw::WorkerClock(Duration::from_secs(1));
    shortest(Bounds::crashes(), flaw, Rule::NoOverlap);
    shortest(Bounds::crashes(), flaw, Rule::LiveIsHonoured);
}

/// Visits every state within bounds: every rule holds, and every rare state was reached.
fn explore(bounds: Bounds) {
    let depth = env::var("CONSIGN_MODEL_DEPTH").map_or(0, |depth| {
        depth.parse().expect("CONSIGN_MODEL_DEPTH is a number")
    });
    let bounds = bounds.deeper(depth);
    let name = bounds.name;
    let begun = Instant::now();
    let checker = StoreModel::new(bounds)
        .checker()
        .threads(2)
        .spawn_bfs()
        .join();
    println!(
        "{name}: {} states, {} steps, {} deep, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    assert!(checker.is_done(), "{name} was not exhausted");
    checker.assert_properties();
}

/// The shortest way to break a rule, found by looking one step further each time.
fn shortest(bounds: Bounds, flaw: Flaw, rule: Rule) -> Vec<Action> {
    for depth in 2..24 {
        let checker = StoreModel::new(bounds.clone())
            .with_flaw(flaw)
            .checker()
            .threads(2)
            .target_max_depth(depth)
            .finish_when(HasDiscoveries::AllOf([rule.name()].into()))
            .spawn_bfs()
            .join();
        if let Some(path) = checker.discovery(rule.name()) {
            let actions = path.into_actions();
            println!("{flaw:?} breaks {:?} by {actions:#?}", rule.name());
            return actions;
        }
    }
    panic!("{flaw:?} was not caught by {:?}", rule.name());
}
