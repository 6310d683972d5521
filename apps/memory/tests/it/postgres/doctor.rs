//! `doctor` finds damage done to the logbook behind the engine's back.

use consign_kernel::prelude::*;

use super::Fixture;
use crate::harness::{connect, execute};

#[tokio::test]
async fn every_kind_of_damage_to_memories_is_named() {
    let damages = [
        (
            "SET session_replication_role = replica; DELETE FROM consign.message WHERE id = 1; DELETE FROM consign.attempt",
            "memory_row_missing",
        ),
        (
            "SET session_replication_role = replica; DELETE FROM governance.write_audit WHERE outbox_id = 1",
            "memory_outcome_unaudited",
        ),
        (
            "SET session_replication_role = replica; DELETE FROM governance.write_audit WHERE outbox_id = 2",
            "memory_outcome_unaudited",
        ),
        (
            "SET session_replication_role = replica; UPDATE consign.message SET payload = payload || '{\"payload_md\": \"x\"}' WHERE id = 3",
            "memory_unfit",
        ),
        (
            "SET session_replication_role = replica; UPDATE consign.message SET headers = '{\"correlation_id\": \"corr-1\"}' WHERE id = 3",
            "memory_deferral_unaudited",
        ),
        (
            "INSERT INTO governance.write_audit (target_space, action, status, correlation_id, created_at)
                 VALUES ('team:p', 'allow', 'pending', 'corr-1', now() - interval '3 hours')",
            "memory_audit_hanging",
        ),
        (
            "SELECT governance.insert_write_audit('a', 'team:p', 'allow', 'x', NULL, '{\"patches\": [{\"artifact_uri\": \"file:///x\"}]}')",
            "memory_evidence_unreadable",
        ),
        (
            "SELECT consign.set_hook('memory', 'check', NULL)",
            "memory_guard_off",
        ),
        (
            "SELECT consign.set_hook('memory', 'settled', NULL)",
            "memory_guard_off",
        ),
        (
            "SELECT consign.set_hook('memory', 'needed', NULL)",
            "memory_guard_off",
        ),
        (
            "ALTER TABLE governance.write_audit DISABLE TRIGGER final_is_final",
            "memory_guard_off",
        ),
    ];
    for (damage, code) in damages {
        let mut fixture = Fixture::open().await;
        fixture
            .run(
                "SELECT logbook.enqueue_memory('one', 'team:p');
             SELECT logbook.claim_outbox('w'); SELECT logbook.ack_sent(1, 'w', 'mem-1');
             SELECT logbook.enqueue_memory('two', 'team:p');
             SELECT logbook.claim_outbox('w'); SELECT logbook.mark_dead_by_worker(2, 'w', 'no');
             SELECT logbook.enqueue_memory('three', 'team:p')",
            )
            .await;
        let store = connect(&fixture.database).await;
        assert_eq!(store.doctor().await.unwrap(), []);
        execute(fixture.database.url(), damage).await;
        let found = store.doctor().await.unwrap();
        assert!(
            found.iter().any(|finding| finding.code == code),
            "{damage} was seen as {found:?}"
        );
    }
}
