use serde_json::{Value, json};

use super::*;

const EVIDENCE: bool = true;

/// A write to `team:p` by `a`, with evidence, team writes on.
struct Write {
    policy: Value,
    target: &'static str,
    actor: Option<&'static str>,
    is_actor_bound: bool,
    is_authenticated: bool,
    kind: Option<&'static str>,
    has_evidence: bool,
    chars: usize,
    is_bulk: bool,
    is_team_on: bool,
    prefix: &'static str,
}

impl Default for Write {
    fn default() -> Self {
        Self {
            policy: json!({}),
            target: "team:p",
            actor: Some("a"),
            is_actor_bound: false,
            is_authenticated: false,
            kind: None,
            has_evidence: EVIDENCE,
            chars: 1,
            is_bulk: false,
            is_team_on: true,
            prefix: "private:",
        }
    }
}

#[track_caller]
fn check(write: Write, expected: (Action, &str, Option<&str>)) {
    let policy = Policy::read(write.policy.as_object().unwrap());
    // Two bytes each: what is counted is characters.
    let payload_md = "é".repeat(write.chars);
    let spaces = Spaces::new(write.prefix).unwrap();
    let decision = decide(&PolicyInput {
        target_space: write.target,
        actor: write.actor,
        is_actor_bound: write.is_actor_bound,
        is_authenticated: write.is_authenticated,
        kind: write.kind,
        has_evidence: write.has_evidence,
        payload_md: &payload_md,
        is_bulk: write.is_bulk,
        team_write_enabled: write.is_team_on,
        policy: &policy,
        spaces: &spaces,
    });
    let (action, reason, space) = expected;
    assert_eq!(decision.action, action, "{decision:?}");
    assert_eq!(decision.reason, reason);
    assert_eq!(decision.final_space.as_deref(), space);
}

fn redirect(reason: &str) -> (Action, &str, Option<&'static str>) {
    (Action::Redirect, reason, Some("private:a"))
}

const PASSED: (Action, &str, Option<&str>) = (Action::Allow, "policy_passed", Some("team:p"));

#[test]
fn spaces_and_people() {
    let off = Write {
        is_team_on: false,
        actor: Some("alice"),
        ..Write::default()
    };
    let to_bob = Write {
        target: "private:bob",
        ..off
    };
    check(
        to_bob,
        (Action::Allow, "private_space", Some("private:bob")),
    );
    for (actor, own) in [(Some("alice"), "private:alice"), (None, "private:unknown")] {
        let write = Write {
            actor,
            is_team_on: false,
            ..Write::default()
        };
        check(write, (Action::Redirect, "team_write_disabled", Some(own)));
    }
    for (actor, own) in [(Some("bob"), "private:bob"), (None, "private:unknown")] {
        let write = Write {
            actor,
            policy: json!({"allowlist_users": ["alice"]}),
            ..Write::default()
        };
        check(
            write,
            (Action::Redirect, "user_not_in_allowlist", Some(own)),
        );
    }
    for target in ["public:x", "", "Team:x"] {
        let write = Write {
            target,
            ..Write::default()
        };
        check(write, (Action::Reject, "unknown_space_type", None));
    }
    let empty = |target| Write {
        target,
        ..Write::default()
    };
    check(
        empty("private:"),
        (Action::Allow, "private_space", Some("private:")),
    );
    check(
        empty("team:"),
        (Action::Allow, "policy_passed", Some("team:")),
    );
    check(
        empty("org:shared"),
        (Action::Allow, "policy_passed", Some("org:shared")),
    );
}

#[test]
fn a_claimed_name_on_the_allowlist_needs_its_token_where_callers_have_tokens() {
    let allowed = (Action::Allow, "policy_passed", Some("team:p"));
    let redirected = (Action::Redirect, "user_not_in_allowlist", Some("private:a"));
    for (policy, is_authenticated, is_actor_bound, expected) in [
        (json!({"allowlist_users": ["a"]}), false, false, allowed),
        (json!({"allowlist_users": ["a"]}), true, true, allowed),
        (json!({"allowlist_users": ["a"]}), true, false, redirected),
        (json!({}), true, false, allowed),
    ] {
        let write = Write {
            policy,
            is_authenticated,
            is_actor_bound,
            ..Write::default()
        };
        check(write, expected);
    }
}

#[test]
fn kinds_evidence_and_lengths() {
    let kind = |kind| Write {
        kind: Some(kind),
        ..Write::default()
    };
    check(kind("FACT"), redirect("kind_not_allowed:FACT"));
    check(kind("procedure"), redirect("kind_not_allowed:procedure"));
    check(kind("DECISION"), PASSED);
    check(Write::default(), PASSED);
    let any_kind = Write {
        policy: json!({"allowed_kinds": []}),
        ..kind("FACT")
    };
    check(any_kind, PASSED);
    let bare = Write {
        has_evidence: false,
        ..kind("DECISION")
    };
    check(bare, redirect("missing_evidence"));
    let not_needed = Write {
        has_evidence: false,
        policy: json!({"require_evidence": false}),
        ..Write::default()
    };
    check(not_needed, PASSED);
    let long = |chars| Write {
        chars,
        ..Write::default()
    };
    check(long(1_200), PASSED);
    check(long(1_201), redirect("exceeds_max_chars:1201>1200"));
    let bulk = |chars, mode: &str| Write {
        chars,
        is_bulk: true,
        policy: json!({"bulk_mode": mode}),
        ..Write::default()
    };
    check(bulk(200, "very_short"), PASSED);
    check(bulk(201, "very_short"), redirect("bulk_too_long"));
    check(bulk(1, "reject"), redirect("bulk_not_allowed"));
    check(bulk(900, "allow"), PASSED);
    check(bulk(201, "no such mode"), redirect("bulk_too_long"));
}

/// Disabled, allowlist, kind, evidence, length, bulk. Each objection is taken away
/// in turn from a write that meets them all.
#[test]
fn objections_come_in_order() {
    let write = |taken_away: usize| {
        let mut policy = json!({"allowlist_users": ["x"], "bulk_mode": "reject"});
        if taken_away > 1 {
            policy["allowlist_users"] = json!(["a"]);
        }
        Write {
            policy,
            is_team_on: taken_away > 0,
            kind: Some(if taken_away > 2 { "PITFALL" } else { "FACT" }),
            has_evidence: taken_away > 3,
            chars: if taken_away > 4 { 1_000 } else { 2_000 },
            is_bulk: taken_away < 6,
            ..Write::default()
        }
    };
    let reasons = [
        "team_write_disabled",
        "user_not_in_allowlist",
        "kind_not_allowed:FACT",
        "missing_evidence",
        "exceeds_max_chars:2000>1200",
        "bulk_not_allowed",
    ];
    for (taken_away, reason) in reasons.into_iter().enumerate() {
        check(write(taken_away), redirect(reason));
    }
    check(write(6), PASSED);
}

/// The reference lets anybody write to anybody's private space.
#[test]
fn a_bound_actor_writes_to_no_private_space_but_their_own() {
    let refused = (Action::Reject, "private_space_of_another", None);
    let table = [
        (
            "private:alice",
            Some("alice"),
            (Action::Allow, "private_space", Some("private:alice")),
        ),
        ("private:bob", Some("alice"), refused),
        ("private:Alice", Some("alice"), refused),
        ("private:", Some("alice"), refused),
        ("private:unknown", Some("alice"), refused),
        ("private:alice", None, refused),
    ];
    for (target, actor, expected) in table {
        let write = Write {
            target,
            actor,
            is_actor_bound: true,
            ..Write::default()
        };
        check(write, expected);
    }
    let elsewhere = Write {
        prefix: "user/",
        is_team_on: false,
        ..Write::default()
    };
    check(
        elsewhere,
        (Action::Redirect, "team_write_disabled", Some("user/a")),
    );
    let other_prefix = Write {
        prefix: "user/",
        target: "private:a",
        ..Write::default()
    };
    check(other_prefix, (Action::Reject, "unknown_space_type", None));
}

#[test]
fn settings_have_defaults_and_fail_closed() {
    let read = |json: Value| Policy::read(json.as_object().unwrap());
    assert_eq!(read(json!({})), Policy::default());
    assert_eq!(
        read(json!({"max_chars": null, "other": 1})),
        Policy::default()
    );
    let modes = [
        ("strict", true),
        ("STRICT", true),
        ("compat", false),
        ("odd", false),
    ];
    for (word, is_strict) in modes {
        let mode = read(json!({"evidence_mode": word})).evidence_mode;
        assert_eq!(mode == EvidenceMode::Strict, is_strict, "{word}");
    }
    assert_eq!(read(json!({"allowlist_users": []})).allowlist_users, None);
    let unreadable = read(json!({"allowlist_users": "alice", "max_chars": "many"}));
    assert!(!unreadable.admits_user(Some("alice")));
    assert_eq!(unreadable.max_chars, 1_200);

    let problems = |json: Value| Policy::problems(json.as_object().unwrap());
    let right = json!({"allowlist_users": ["a"], "allowed_kinds": [], "require_evidence": false,
        "evidence_mode": "Strict", "max_chars": 0, "bulk_mode": "allow", "bulk_max_chars": 1, "rate": {}});
    assert_eq!(problems(right), Vec::<String>::new());
    let wrong = json!({"allowlist_users": ["a", 1], "allowed_kinds": "A", "require_evidence": 1,
        "evidence_mode": "odd", "max_chars": -1, "bulk_mode": "odd", "bulk_max_chars": 1.5});
    let problems = problems(wrong);
    assert_eq!(problems.len(), 7, "{problems:?}");
    assert_eq!(
        problems[0],
        "policy_json.allowlist_users must be a list of strings"
    );
}

#[test]
fn settings_are_changed_by_those_who_may() {
    let listed = Policy {
        allowlist_users: Some(vec!["alice".into()]),
        ..Policy::default()
    };
    let decide = |given, configured, actor, policy: &Policy| {
        let credentials = Credentials {
            admin_key: given,
            configured_key: configured,
            actor,
            ..Credentials::default()
        };
        let decision = authorize(&credentials, policy);
        (
            decision.is_allowed,
            decision.reason.strip_prefix("governance_update:").unwrap(),
        )
    };
    let key = Some("k");
    let table = [
        (key, key, None, (true, "admin_key")),
        (key, key, Some("mallory"), (true, "admin_key")),
        (None, key, Some("alice"), (true, "allowlist_user")),
        (Some("wrong"), key, Some("alice"), (true, "allowlist_user")),
        (None, key, None, (false, "missing_credentials")),
        (Some(""), Some(""), None, (false, "missing_credentials")),
        (key, None, None, (false, "admin_key_not_configured")),
        (
            Some("kk"),
            key,
            Some("mallory"),
            (false, "invalid_admin_key"),
        ),
        (None, key, Some("mallory"), (false, "user_not_in_allowlist")),
    ];
    for (given, configured, actor, expected) in table {
        assert_eq!(
            decide(given, configured, actor, &listed),
            expected,
            "{given:?} {actor:?}"
        );
    }
    // In this place an empty list admits nobody.
    let nobody = decide(None, key, Some("alice"), &Policy::default());
    assert_eq!(nobody, (false, "user_not_in_allowlist"));

    let with_auth = |is_actor_bound, is_admin| {
        let credentials = Credentials {
            actor: Some("alice"),
            is_auth_on: true,
            is_actor_bound,
            is_admin,
            ..Credentials::default()
        };
        authorize(&credentials, &listed).reason
    };
    assert_eq!(with_auth(true, false), "governance_update:allowlist_user");
    assert_eq!(
        with_auth(false, false),
        "governance_update:user_not_in_allowlist"
    );
    assert_eq!(with_auth(false, true), "governance_update:admin_token");
}
