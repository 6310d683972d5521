//! What can be wrong between ledger and messages is found and named.

use consign_kernel::prelude::*;

use super::{enter, execute_all, fixture, harness::execute};

#[tokio::test]
async fn every_kind_of_damage_is_named() {
    let damages = [
        ("UPDATE consign.idempo_ledger SET outbox_id = 999999 WHERE status = 'accepted'", "order_message_missing"),
        ("DELETE FROM consign.idempo_ledger WHERE status = 'accepted'", "order_not_in_ledger"),
        ("SET session_replication_role = replica; UPDATE consign.idempo_ledger SET status = 'accepted'", "order_disagrees"),
        ("UPDATE consign.idempo_ledger SET status = 'succeeded'", "order_disagrees"),
        ("SELECT consign.set_hook('orders', 'expired', NULL)", "order_guard_off"),
        ("SELECT consign.set_hook('orders', 'settled', NULL)", "order_guard_off"),
        ("SELECT consign.set_hook('orders', 'check', NULL)", "order_guard_off"),
        ("UPDATE consign.queue SET hooks = hooks - 'moved' WHERE name = 'orders'", "order_guard_off"),
        ("DROP TRIGGER succeeded_is_final ON consign.idempo_ledger", "order_guard_off"),
        // A copy of an order: its key has a row, but that is of another message.
        ("SELECT consign.set_hook('orders', 'check', NULL);
          SELECT consign.enqueue('orders', payload, 'desk-2/copy-0001') FROM consign.message WHERE queue = 'orders' LIMIT 1", "order_not_in_ledger"),
    ];
    for (damage, code) in damages {
        let (database, store) = fixture(120).await;
        enter(&store, "key-0001").await;
        execute_all(&store).await;
        enter(&store, "key-0002").await;
        assert_eq!(store.doctor().await.unwrap(), [], "healthy before");
        execute(database.url(), damage).await;
        let findings = store.doctor().await.unwrap();
        let codes: Vec<&str> = findings.iter().map(|f| f.code.as_str()).collect();
        assert!(codes.contains(&code), "{damage} was seen as {codes:?}");
        assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
    }
}
