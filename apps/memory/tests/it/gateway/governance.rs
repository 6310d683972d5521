//! Settings, and who may change them.

use consign_memory::{Audit, AuditFilter, Caller, Secret};
use serde_json::{Value, json};

use crate::support::{Fixture, told};

async fn fixture() -> Fixture {
    Fixture::with(|options| options.governance_admin_key = Some(Secret::new("tulip"))).await
}

async fn audits(fixture: &Fixture) -> Vec<Audit> {
    let filter = AuditFilter {
        target_space: Some("governance:p".to_owned()),
        ..AuditFilter::default()
    };
    fixture.store.audits(&filter, 100).await.unwrap()
}

#[tokio::test]
async fn the_key_or_the_list_opens_the_settings() {
    let fixture = fixture().await;
    let first = fixture.call("governance_get", json!({})).await;
    assert_eq!(first["settings"]["team_write_enabled"], false);
    assert_eq!(first["settings"]["policy_json"], json!({}));

    let change = json!({
        "team_write_enabled": true, "admin_key": "tulip", "actor_user_id": "root",
        "policy_json": {"allowlist_users": ["alice"], "max_chars": 100},
    });
    let answer = fixture.call("governance_update", change).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(answer["action"], "allow");
    assert_eq!(answer["message"], Value::Null);
    assert_eq!(answer["settings"]["team_write_enabled"], true);
    assert_eq!(answer["settings"]["updated_by"], "root");
    let audit = &audits(&fixture).await[0];
    assert_eq!(told(audit), "allow governance_update:admin_key success");
    assert_eq!(
        audit.correlation_id.as_deref(),
        answer["correlation_id"].as_str()
    );
    assert!(!audit.evidence_refs_json.to_string().contains("tulip"));

    // By the list; what is not said stays as it is.
    let change = json!({"policy_json": {"max_chars": 50}, "actor_user_id": "alice"});
    let answer = fixture.call("governance_update", change).await;
    assert_eq!(answer["ok"], true, "{answer}");
    let settings = &answer["settings"];
    assert_eq!(settings["team_write_enabled"], true);
    assert_eq!(
        settings["policy_json"],
        json!({"allowlist_users": ["alice"], "max_chars": 50})
    );
    let audit = &audits(&fixture).await[0];
    assert_eq!(
        told(audit),
        "allow governance_update:allowlist_user success"
    );
}

/// The precedence of reasons, each audited; nothing changes.
#[tokio::test]
async fn rejects_other_callers_with_a_reason() {
    let configured = fixture().await;
    let table = [
        (json!({}), "missing_credentials"),
        (json!({"admin_key": "wrong"}), "invalid_admin_key"),
        (
            json!({"admin_key": "", "actor_user_id": "eve"}),
            "user_not_in_allowlist",
        ),
        (json!({"actor_user_id": "eve"}), "user_not_in_allowlist"),
    ];
    let unconfigured = Fixture::new().await;
    let other = [(json!({"admin_key": "tulip"}), "admin_key_not_configured")];
    let cases = table.into_iter().map(|case| (&configured, case));
    let cases = cases.chain(other.into_iter().map(|case| (&unconfigured, case)));
    for (fixture, (mut arguments, reason)) in cases {
        arguments["team_write_enabled"] = json!(true);
        let answer = fixture.call("governance_update", arguments).await;
        let reason = format!("governance_update:{reason}");
        assert_eq!(answer["ok"], false, "{answer}");
        assert_eq!(answer["action"], "reject");
        assert_eq!(answer["settings"], Value::Null);
        assert_eq!(answer["message"], json!(reason));
        let audit = &audits(fixture).await[0];
        assert_eq!(told(audit), format!("reject {reason} failed"));
    }
    let settings = configured.call("governance_get", json!({})).await;
    assert_eq!(settings["settings"]["team_write_enabled"], false);
}

/// With tokens, a listed name needs the token of that name.
#[tokio::test]
async fn a_listed_name_needs_its_token() {
    let fixture = fixture().await;
    fixture
        .set_policy(json!({"allowlist_users": ["alice"]}))
        .await;
    let token = |actor: Option<&str>, is_admin| Caller {
        actor: actor.map(str::to_owned),
        is_authenticated: true,
        is_admin,
        correlation_id: None,
    };
    let named = json!({"actor_user_id": "alice"});
    let cases = [
        (token(None, false), named.clone(), false),
        (token(Some("alice"), false), json!({}), true),
        (token(Some("bob"), false), json!({}), false),
        (token(None, true), json!({}), true),
        (token(Some("bob"), false), named, false),
    ];
    for (number, (caller, arguments, is_allowed)) in cases.into_iter().enumerate() {
        let answer = fixture
            .call_as(&caller, "governance_update", arguments)
            .await;
        assert_eq!(answer["ok"], is_allowed, "case {number}: {answer}");
    }
    let audit = &audits(&fixture).await[0];
    assert_eq!(
        told(audit),
        "reject governance_update:actor_mismatch failed"
    );
    assert_eq!(audit.actor_user_id.as_deref(), Some("bob"));
}

#[tokio::test]
async fn what_is_no_policy_is_not_set() {
    let fixture = fixture().await;
    // Who asked is in the audit, as far as it is a name; what was asked for and the key are not.
    for (change, actor) in [
        (json!({"policy_json": {"max_chars": "many"}}), None),
        (json!({"policy_json": []}), None),
        (
            json!({"team_write_enabled": "yes", "actor_user_id": "eve"}),
            Some("eve"),
        ),
        (json!({"surprise": 1, "actor_user_id": "eve"}), Some("eve")),
        (json!({"policy_json": [], "actor_user_id": "e\0ve"}), None),
        (json!({"policy_json": [], "actor_user_id": 7}), None),
    ] {
        let mut change = change;
        change["admin_key"] = json!("tulip");
        let before = audits(&fixture).await.len();
        let answer = fixture.call("governance_update", change).await;
        let code = answer["error_code"].as_str().unwrap();
        assert!(
            ["INVALID_PARAMETER", "UNKNOWN_PARAMETER"].contains(&code),
            "{answer}"
        );
        let audits = audits(&fixture).await;
        assert_eq!(audits.len(), before + 1, "{answer}");
        let audit = &audits[0];
        let expected = "reject governance_update:invalid_parameter failed";
        assert_eq!(told(audit), expected);
        assert_eq!(audit.actor_user_id.as_deref(), actor);
        assert!(!audit.evidence_refs_json.to_string().contains("tulip"));
    }
    let settings = fixture.call("governance_get", json!({})).await;
    assert_eq!(settings["settings"]["policy_json"], json!({}));
}

/// Settings and their audit change together or not at all.
#[tokio::test]
async fn without_an_audit_no_settings_change() {
    let fixture = fixture().await;
    fixture.break_writes("write_audit").await;
    let change = json!({"admin_key": "tulip", "team_write_enabled": true});
    let answer = fixture.call("governance_update", change).await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(answer["action"], "error");
    fixture.mend("write_audit").await;
    let settings = fixture.call("governance_get", json!({})).await;
    assert_eq!(settings["settings"]["team_write_enabled"], false);
}

crate::support::also_on_postgres! {
    the_key_or_the_list_opens_the_settings
    rejects_other_callers_with_a_reason
    a_listed_name_needs_its_token
    what_is_no_policy_is_not_set
    without_an_audit_no_settings_change
}
