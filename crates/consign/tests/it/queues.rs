//! `consign queues`: listing, showing, setting.

use serde_json::json;

use crate::support::{Consign, assert_stable};

#[test]
fn queues_are_listed_with_their_counts() {
    let consign = Consign::new();
    consign.run(["queues", "set", "mail"]).expect(0);
    consign.run(["pause", "mail"]).expect(0);
    consign.run(["enqueue", "1"]).expect(0);
    consign.run(["enqueue", "2", "--delay", "1h"]).expect(0);
    assert_stable("queues", &consign.run(["queues"]).expect(0).stdout);
    let queues = consign.json(["queues"]);
    assert_eq!(queues["items"][0]["name"], "default");
    assert_eq!(queues["items"][0]["counts"]["ready"], 1);
    assert_eq!(queues["items"][0]["counts"]["scheduled"], 1);
    assert!(queues["items"][1]["paused_at"].is_string());
}

#[test]
fn a_queue_is_created_changed_in_part_and_shown() {
    let consign = Consign::new();
    let arguments = [
        "queues",
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
        "--total-concurrency",
        "8",
        "--total-rate",
        "50",
        "--timeout",
        "2s",
        "--record-begin",
        "--presume-begun",
        "--hold-codes",
        "NO_RECEIPT",
        "--keep",
        "30d",
        "--keep-dead",
        "2h",
        "--keep-keys",
        "forever",
        "--archive",
        "false",
    ];
    let ran = consign.run(arguments).expect(0);
    assert_eq!(ran.stderr, "queue mail was created\n");
    assert_stable("queues_set", &ran.stdout);
    let ran = consign
        .run(["queues", "set", "mail", "--attempts", "7"])
        .expect(0);
    assert_eq!(ran.stderr, "queue mail was changed\n");
    let expected = json!({
        "lease_ttl_ms": 30_000, "lease_ttl_max_ms": 3_600_000, "attempts_max": 7,
        "retry": {"kind": "table", "delays_ms": [5_000, 60_000]},
        "ordered": true, "on_dead": "continue", "on_uncertain": "hold", "notify": false,
        "payload_max_bytes": 65_536, "claim_max_bytes": 16_777_216, "concurrency": 4,
        "rate_per_second": 100, "total_concurrency": 8, "total_rate_per_second": 50,
        "timeout_ms": 2_000, "record_begin": true, "presume_begun": true,
        "hold_codes": ["NO_RECEIPT"], "keep_ms": 2_592_000_000_u64, "keep_dead_ms": 7_200_000,
        "keep_keys_ms": null, "archive": false,
        "alert_queue": null, "alert_interval_ms": 300_000, "alert_age_ms": null,
    });
    assert_eq!(consign.json(["queues", "show", "mail"])["policy"], expected);
    assert_stable(
        "queues_show",
        &consign.run(["queues", "show", "mail"]).expect(0).stdout,
    );
}

#[test]
fn a_rate_can_be_taken_back() {
    let consign = Consign::new();
    consign
        .run(["queues", "set", "mail", "--rate", "7"])
        .expect(0);
    let queue = consign.json(["queues", "set", "mail", "--concurrency", "2"]);
    assert_eq!(
        queue["policy"]["rate_per_second"], 7,
        "what is not named stays"
    );
    let queue = consign.json(["queues", "set", "mail", "--rate", "none"]);
    assert_eq!(queue["policy"]["rate_per_second"], json!(null));
    consign
        .run(["queues", "set", "mail", "--rate", "0"])
        .expect(3);
    consign
        .run(["queues", "set", "mail", "--rate", "fast"])
        .expect(2);
}

#[test]
fn a_policy_as_json_replaces_the_whole() {
    let consign = Consign::new();
    consign
        .run(["queues", "set", "mail", "--attempts", "3"])
        .expect(0);
    let policy = r#"{"lease_ttl_ms": 500}"#;
    let queue = consign.json(["queues", "set", "mail", "--policy-json", policy]);
    assert_eq!(queue["policy"]["lease_ttl_ms"], 500);
    assert_eq!(queue["policy"]["attempts_max"], 10, "back to the default");
    let bad = [
        "queues",
        "set",
        "mail",
        "--policy-json",
        r#"{"leese_ttl_ms": 1}"#,
    ];
    let ran = consign.run(bad).expect(3);
    assert!(ran.stderr.contains("leese_ttl_ms"), "{ran:#?}");
    let both = [
        "queues",
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
        .run(["queues", "set", "mail", "--attempts", "0"])
        .expect(3);
    assert!(ran.stderr.contains("attempts_max"), "{ran:#?}");
    consign
        .run(["queues", "set", "mail", "--lease", "25h"])
        .expect(3);
    consign
        .run(["queues", "set", "mail", "--lease", "soon"])
        .expect(2);
    consign
        .run(["queues", "set", "mail", "--retry", "sometimes"])
        .expect(2);
    consign.run(["queues", "show", "mail"]).expect(3);
}

#[test]
fn the_order_of_a_queue_with_messages_cannot_change() {
    let consign = Consign::new();
    consign.enqueue_one();
    let (code, _) = consign
        .run(["queues", "set", "default", "--ordered", "--json"])
        .expect(3)
        .error();
    assert_eq!(code, "queue_not_empty");
}
