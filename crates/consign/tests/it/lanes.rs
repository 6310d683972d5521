//! `consign lanes`: listing, showing, setting.

use serde_json::json;

use crate::support::{Consign, assert_stable};

#[test]
fn lanes_are_listed_with_their_counts() {
    let consign = Consign::new();
    consign.run(["lanes", "set", "mail"]).expect(0);
    consign.run(["pause", "mail"]).expect(0);
    consign.run(["enqueue", "1"]).expect(0);
    consign.run(["enqueue", "2", "--delay", "1h"]).expect(0);
    assert_stable("lanes", &consign.run(["lanes"]).expect(0).stdout);
    let lanes = consign.json(["lanes"]);
    assert_eq!(lanes["items"][0]["name"], "default");
    assert_eq!(lanes["items"][0]["counts"]["ready"], 1);
    assert_eq!(lanes["items"][0]["counts"]["scheduled"], 1);
    assert!(lanes["items"][1]["paused_at"].is_string());
}

#[test]
fn a_lane_is_created_changed_in_part_and_shown() {
    let consign = Consign::new();
    let arguments = [
        "lanes",
        "set",
        "mail",
        "--lease",
        "30s",
        "--attempts",
        "5",
        "--retry",
        "table:5s,1m",
        "--ordered",
        "--on-dead",
        "continue",
        "--on-uncertain",
        "hold",
        "--notify",
        "false",
        "--payload-max",
        "64KiB",
        "--concurrency",
        "4",
        "--rate",
        "100",
        "--timeout",
        "2s",
        "--record-begin",
    ];
    let ran = consign.run(arguments).expect(0);
    assert_eq!(ran.stderr, "lane mail was created\n");
    assert_stable("lanes_set", &ran.stdout);
    let ran = consign
        .run(["lanes", "set", "mail", "--attempts", "7"])
        .expect(0);
    assert_eq!(ran.stderr, "lane mail was changed\n");
    let expected = json!({
        "lease_ttl_ms": 30_000, "lease_ttl_max_ms": 3_600_000, "attempts_max": 7,
        "retry": {"kind": "table", "delays_ms": [5_000, 60_000]},
        "ordered": true, "on_dead": "continue", "on_uncertain": "hold", "notify": false,
        "payload_max_bytes": 65_536, "claim_max_bytes": 16_777_216, "concurrency": 4,
        "rate_per_second": 100,
        "timeout_ms": 2_000, "record_begin": true,
    });
    assert_eq!(consign.json(["lanes", "show", "mail"])["policy"], expected);
    assert_stable(
        "lanes_show",
        &consign.run(["lanes", "show", "mail"]).expect(0).stdout,
    );
}

#[test]
fn a_rate_can_be_taken_back() {
    let consign = Consign::new();
    consign
        .run(["lanes", "set", "mail", "--rate", "7"])
        .expect(0);
    let lane = consign.json(["lanes", "set", "mail", "--concurrency", "2"]);
    assert_eq!(
        lane["policy"]["rate_per_second"], 7,
        "what is not named stays"
    );
    let lane = consign.json(["lanes", "set", "mail", "--rate", "none"]);
    assert_eq!(lane["policy"]["rate_per_second"], json!(null));
    consign
        .run(["lanes", "set", "mail", "--rate", "0"])
        .expect(3);
    consign
        .run(["lanes", "set", "mail", "--rate", "fast"])
        .expect(2);
}

#[test]
fn a_policy_as_json_replaces_the_whole() {
    let consign = Consign::new();
    consign
        .run(["lanes", "set", "mail", "--attempts", "3"])
        .expect(0);
    let policy = r#"{"lease_ttl_ms": 500}"#;
    let lane = consign.json(["lanes", "set", "mail", "--policy-json", policy]);
    assert_eq!(lane["policy"]["lease_ttl_ms"], 500);
    assert_eq!(lane["policy"]["attempts_max"], 10, "back to the default");
    let bad = [
        "lanes",
        "set",
        "mail",
        "--policy-json",
        r#"{"leese_ttl_ms": 1}"#,
    ];
    let ran = consign.run(bad).expect(3);
    assert!(ran.stderr.contains("leese_ttl_ms"), "{ran:#?}");
    let both = [
        "lanes",
        "set",
        "mail",
        "--policy-json",
        "{}",
        "--attempts",
        "3",
    ];
    consign.run(both).expect(2);
}

#[test]
fn a_policy_no_store_could_honour_is_refused() {
    let consign = Consign::new();
    let ran = consign
        .run(["lanes", "set", "mail", "--attempts", "0"])
        .expect(3);
    assert!(ran.stderr.contains("attempts_max"), "{ran:#?}");
    consign
        .run(["lanes", "set", "mail", "--lease", "25h"])
        .expect(3);
    consign
        .run(["lanes", "set", "mail", "--lease", "soon"])
        .expect(2);
    consign
        .run(["lanes", "set", "mail", "--retry", "sometimes"])
        .expect(2);
    consign.run(["lanes", "show", "mail"]).expect(3);
}

#[test]
fn the_order_of_a_lane_with_messages_cannot_change() {
    let consign = Consign::new();
    consign.enqueue_one();
    let (code, _) = consign
        .run(["lanes", "set", "default", "--ordered", "--json"])
        .expect(3)
        .error();
    assert_eq!(code, "lane_not_empty");
}
