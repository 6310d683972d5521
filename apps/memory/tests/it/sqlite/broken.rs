//! A suite that has never failed is no evidence: each broken trigger must be caught.

use super::{bench, execute, guards, index};
use crate::harness::SqliteFixture;

/// Writes something else in place of a part of a trigger.
async fn breaks(bench: &SqliteFixture, trigger: &str, part: &str, instead: &str) {
    let mut sql = bench.connect().await;
    let text: String = sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE name = ?1")
        .bind(trigger)
        .fetch_one(&mut sql)
        .await
        .unwrap();
    assert!(text.contains(part), "{part:?} is not in {trigger}");
    let broken = text.replace(part, instead);
    let statements = format!("DROP TRIGGER {trigger}; {broken}");
    execute(&mut sql, &statements).await.unwrap();
}

/// Breaks a trigger; the rule must fail.
macro_rules! caught {
    ($rule:path: $(($trigger:expr, $part:expr, $instead:expr)),+ $(,)?) => {$(
        let fixture = bench().await;
        breaks(&fixture, $trigger, $part, $instead).await;
        let examined = tokio::spawn(async move { $rule(&fixture).await });
        let what = format!("{} passes without {:?} in {}", stringify!($rule), $part, $trigger);
        examined.await.expect_err(&what);
    )+};
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_of_audits_that_is_broken_is_caught() {
    caught!(guards::an_audit_ends_once:
        ("write_audit_delete", "BEGIN SELECT", "WHEN 0 BEGIN SELECT"),
        ("write_audit_update", "OLD.status <> 'pending' OR ", ""),
        ("write_audit_update", "NEW.status = 'pending' OR ", ""),
        ("write_audit_update", "NEW.audit_id IS NOT OLD.audit_id", "0"),
        ("write_audit_update", "NEW.created_at IS NOT OLD.created_at", "0"),
        ("write_audit_update", "NEW.correlation_id IS NOT OLD.correlation_id", "0"),
        ("write_audit_update", "NEW.actor_user_id IS NOT OLD.actor_user_id", "0"),
        ("write_audit_update", "NEW.target_space IS NOT OLD.target_space", "0"),
        ("write_audit_update", "NEW.payload_sha IS NOT OLD.payload_sha", "0"),
        ("write_audit_replace", "EXISTS (SELECT 1 FROM write_audit WHERE audit_id = NEW.audit_id)", "0"),
        ("write_audit_replace", "NEW.status = 'pending'", "0"),
    );
    caught!(guards::an_erasure_removes_error_texts_only:
        ("write_audit_update", "NEW.evidence_refs_json = json_remove(", "1 OR '' = json_remove("),
        ("write_audit_update", "NEW.updated_at, ", "OLD.updated_at, "),
        ("write_audit_update", "(NEW.action, ", "(OLD.action, "),
        ("write_audit_update", "NEW.reason, ", "OLD.reason, "),
        ("write_audit_update", "NEW.status)", "OLD.status)"),
        ("write_audit_update", "WHERE message_id = OLD.outbox_id", "WHERE 1"),
        ("write_audit_update", "WHERE message_id = OLD.outbox_id", "WHERE 0"),
        ("write_audit_update", "WHERE message_id = m.id", "WHERE 1"),
        ("write_audit_update", "WHERE message_id = m.id", "WHERE 0"),
        ("write_audit_update", "OLD.outbox_id IS NULL AND ", ""),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_not_kept_is_caught() {
    for table in ["candidate", "event", "kept"] {
        for what in ["added", "changed", "removed"] {
            let trigger = format!("{table}_{what}");
            caught!(index::the_index_follows_plain_sql:
                (&trigger, "\nBEGIN", "\nWHEN 0 BEGIN"),
            );
        }
        let (trigger, index) = (format!("{table}_changed"), format!("{table}_words"));
        let removal = match table {
            "kept" => {
                "VALUES ('delete', OLD.kept_id, coalesce(OLD.words, OLD.payload_md))".to_owned()
            }
            _ => format!("DELETE FROM {index} WHERE"),
        };
        let instead = match table {
            "kept" => "SELECT 'delete', 0, '' WHERE 0".to_owned(),
            _ => format!("{removal} 0 AND"),
        };
        caught!(index::the_index_follows_plain_sql: (&trigger, &removal, &instead));
    }
    for (trigger, part) in [
        ("kept_added", "coalesce(NEW.words, NEW.payload_md)"),
        ("kept_changed", "coalesce(NEW.words, NEW.payload_md)"),
    ] {
        caught!(index::words_survive_a_change: (trigger, part, "NEW.payload_md"));
    }
    for trigger in ["kept_changed", "kept_removed"] {
        let part = "coalesce(OLD.words, OLD.payload_md)";
        caught!(index::split_words_are_removed: (trigger, part, "OLD.payload_md"));
    }
    caught!(index::an_item_takes_its_own_along:
        ("item_removed", "DELETE FROM events WHERE", "DELETE FROM events WHERE 0 AND"),
        ("item_removed", "DELETE FROM attachments WHERE", "DELETE FROM attachments WHERE 0 AND"),
        ("item_removed", "DELETE FROM attachments WHERE item_id = OLD.item_id", "DELETE FROM attachments"),
    );
}
