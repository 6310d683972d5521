//! What a project allows.

use std::{collections::BTreeSet, sync::Arc};

use consign_memory::{Action, AuditFilter, AuditStatus, NewAudit, Settings, SettingsChange};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::Harness;
use super::fixture::{MemoryFixture, corr};
use consign_conformance::stage::{all, refused, s};

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("an object: {other}"),
    }
}

fn change(policy_json: Value) -> SettingsChange {
    SettingsChange {
        project_key: "p".to_owned(),
        team_write_enabled: None,
        policy_json: map(policy_json),
        replace: false,
        updated_by: Some("alice".to_owned()),
    }
}

fn audit(n: u64) -> NewAudit {
    NewAudit {
        actor_user_id: Some("alice".to_owned()),
        target_space: "governance:p".to_owned(),
        action: Action::Allow,
        reason: Some("governance_update:admin_key".to_owned()),
        payload_sha: None,
        evidence_refs_json: json!({}),
        correlation_id: Some(corr(n)),
        status: AuditStatus::Success,
    }
}

async fn read(fixture: &MemoryFixture<'_>) -> Settings {
    fixture.book.settings("p").await.expect("settings answers")
}

/// Team writes are off by default.
pub(crate) async fn settings_are_made_on_first_sight(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let now = fixture.stage.now().await;
    let expected = Settings {
        project_key: "p".to_owned(),
        team_write_enabled: false,
        policy_json: Map::new(),
        updated_by: None,
        updated_at: now,
    };
    assert_eq!(read(&fixture).await, expected);
    fixture.stage.advance(s(60)).await;
    assert_eq!(read(&fixture).await, expected, "reading changes nothing");
}

/// All succeed with the same row.
pub(crate) async fn settings_read_by_ten_at_once_are_one_row(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let other = harness.another_book().await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let book = Arc::clone(if n % 2 == 0 { &fixture.book } else { &other });
        tasks.spawn(async move { book.settings("p").await.expect("settings answers") });
    }
    let answers = all(tasks).await;
    let seen: BTreeSet<String> = answers.iter().map(|a| format!("{a:?}")).collect();
    assert_eq!((answers.len(), seen.len()), (10, 1), "{seen:?}");
}

/// Key by key over the current policy, or instead of it; the user is made.
pub(crate) async fn settings_change_with_their_audit(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let book = &fixture.book;
    let first = change(json!({"max_chars": 900, "allowlist_users": ["alice"]}));
    let made = book.change_settings(&first, &audit(1)).await;
    let made = made.expect("change_settings answers");
    assert!(!made.team_write_enabled, "an absent flag stays as it is");
    fixture.stage.advance(s(60)).await;
    let second = SettingsChange {
        team_write_enabled: Some(true),
        ..change(json!({"max_chars": 800, "require_evidence": false}))
    };
    let changed = book.change_settings(&second, &audit(2)).await;
    let changed = changed.expect("change_settings answers");
    let expected = Settings {
        project_key: "p".to_owned(),
        team_write_enabled: true,
        policy_json: map(json!({
            "max_chars": 800, "allowlist_users": ["alice"], "require_evidence": false,
        })),
        updated_by: Some("alice".to_owned()),
        updated_at: fixture.stage.now().await,
    };
    assert_eq!(changed, expected);
    assert_eq!(read(&fixture).await, expected);
    let replaced = SettingsChange {
        replace: true,
        ..change(json!({"bulk_mode": "reject"}))
    };
    let replaced = book.change_settings(&replaced, &audit(3)).await;
    let replaced = replaced.expect("change_settings answers");
    assert_eq!(replaced.policy_json, map(json!({"bulk_mode": "reject"})));
    assert!(replaced.team_write_enabled);

    assert!(book.user_exists("alice").await.expect("an answer"));
    let filter = AuditFilter {
        target_space: Some("governance:p".to_owned()),
        ..AuditFilter::default()
    };
    assert_eq!(fixture.audits(&filter).await.len(), 3);
}

/// Never one without the other.
pub(crate) async fn a_refused_change_of_settings_leaves_nothing(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let before = read(&fixture).await;
    let wrong = NewAudit {
        evidence_refs_json: json!("no object"),
        ..audit(1)
    };
    let enabled = SettingsChange {
        team_write_enabled: Some(true),
        ..change(json!({}))
    };
    refused(
        fixture.book.change_settings(&enabled, &wrong).await,
        "invalid_input",
    );
    assert_eq!(read(&fixture).await, before);
    assert_eq!(fixture.audits(&AuditFilter::default()).await, []);
    assert!(!fixture.book.user_exists("alice").await.expect("an answer"));
}
