//! The first moments: something of everything, so that no page is empty.

use serde_json::json;

use crate::{caller::Call, memories::UNREADABLE, settings::ADMIN_KEY, traffic::Traffic};

/// Letters, webhooks and so on that are there from the start.
const LETTERS: usize = 24;
const WEBHOOKS: usize = 12;
const REPORTS: usize = 9;
const STAYING: usize = 6;

/// What to call before the rest.
pub(crate) fn calls(traffic: &mut Traffic) -> Vec<Call> {
    let reason = json!({"reason": "the text is being checked"});
    // Without it, a team's memories are kept privately.
    let rules = json!({"team_write_enabled": true, "admin_key": ADMIN_KEY});
    let rules = json!({"tool": "governance_update", "arguments": rules});
    let mut calls = vec![
        Call::new("/v1/queues/newsletter/pause", reason),
        Call::new("/mcp", rules),
    ];
    protocols(traffic, &mut calls);
    let fates = ["fail", "refuse", "slow=6000", "fail=1", "slow=2500"];
    calls.extend(fates.map(|fate| traffic.webhook(fate)));
    calls.extend(["refuse", "slow=3000", "fail=1"].map(|fate| traffic.letter(fate)));
    for _ in 0..STAYING {
        calls.push(traffic.partner());
        calls.push(traffic.newsletter());
    }
    calls.extend((0..REPORTS).map(|_| traffic.report()));
    calls.extend((0..LETTERS).map(|_| traffic.letter("")));
    calls.extend((0..WEBHOOKS).map(|_| traffic.webhook("")));
    calls
}

/// Done and refused ones, some under way, and some that a person must look at.
fn protocols(traffic: &mut Traffic, calls: &mut Vec<Call>) {
    let tags = ["paper:rejected", "paper:down=2", "paper:slow=2000", "", ""];
    calls.extend(tags.map(|tag| traffic.order(tag)));
    let scenarios = [
        "SIMULATE_MISSING_REFERENCE",
        "SIMULATE_PERMANENT_FAILURE",
        "SIMULATE_CANNOT_TELL",
        "SIMULATE_TRANSIENT_FAILURE",
        "SIMULATE_SUCCESS",
    ];
    calls.extend(scenarios.map(|scenario| traffic.payment(scenario, false)));
    calls.push(traffic.payment("SIMULATE_SUCCESS", true));
    // The memory server is away: these are put off, and one of them it will not have later either.
    calls.extend((0..4).map(|_| traffic.memory()));
    calls.push(traffic.memory_of(&format!("A photograph of the whiteboard, {UNREADABLE}.")));
}
