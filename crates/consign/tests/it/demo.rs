//! `consign demo`: it runs, it checks itself, and it leaves nothing behind.

use std::time::Instant;

use crate::support::{Consign, finish};

#[test]
fn the_demo_prints_its_steps_and_leaves_nothing_behind() {
    let consign = Consign::unmigrated();
    let begun = Instant::now();
    let mut command = consign.command();
    command.arg("demo").env("TMPDIR", consign.folder());
    let ran = finish(command, b"").expect(0);
    for guarantee in ["G1", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G11"] {
        assert!(
            ran.stdout.contains(&format!("=> {guarantee}: ")),
            "{guarantee}: {ran:#?}"
        );
    }
    assert!(
        ran.stdout.contains("lease_expired"),
        "the end of the poison: {ran:#?}"
    );
    assert!(
        ran.stdout.contains("consign requeue"),
        "what to do: {ran:#?}"
    );
    assert_eq!(ran.stderr, "");
    let left: Vec<_> = consign.folder().read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(
        begun.elapsed().as_secs() < 30,
        "a few seconds, even on a busy machine"
    );
}

#[test]
fn a_kept_demo_can_be_looked_at() {
    let consign = Consign::unmigrated();
    let mut command = consign.command();
    command
        .args(["demo", "--keep", "--json"])
        .env("TMPDIR", consign.folder());
    let events = finish(command, b"").expect(0).json_lines();
    let kept = events.last().unwrap();
    assert_eq!(kept["event"], "kept");
    let consign = Consign::at(kept["database"].as_str().unwrap());
    let dead = consign.json(["ls", "--state", "dead"]);
    assert_eq!(dead["items"].as_array().unwrap().len(), 1);
    let delivered = consign.json(["ls", "--state", "delivered"]);
    assert_eq!(delivered["items"].as_array().unwrap().len(), 11);
    consign.run(["doctor"]).expect(0);
    for name in [
        "conflict",
        "already_settled",
        "lease_lost",
        "crashed",
        "dead",
        "doctor",
    ] {
        let told = |event: &serde_json::Value| event["event"] == name;
        assert!(events.iter().any(told), "{name}: {events:#?}");
    }
}
