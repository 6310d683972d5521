//! What an erased memory still answers for: where it was stored, and that it may have been.

use consign_conformance::stage::{by, s};
use consign_kernel::Move;
use consign_memory::{KnownMemory, OpenResult, Opening, OutboxStatus, Twin};
use serde_json::json;

use super::{
    Harness,
    erase::{HERE, THERE, failed, meant_for, to},
    fixture::{MemoryFixture, at, memory},
    open::{fresh, open, opening},
    retention::maintained,
};

pub(crate) async fn an_erased_memory_is_known_where_it_was_stored(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    for (text, memory_id) in [("named", Some("mem-1")), ("nameless", None)] {
        let id = fixture.deliver(&meant_for(HERE, text), memory_id).await;
        fixture.erased(id).await;
        let known = KnownMemory {
            outbox_id: Some(id),
            memory_id: memory_id.map(str::to_owned),
        };
        for backend in [None, Some(HERE)] {
            let found = fixture.known_in(text, backend).await;
            assert_eq!(found, Some(known.clone()), "{text} {backend:?}");
        }
        assert_eq!(fixture.known_in(text, Some(THERE)).await, None, "{text}");
        let twin = Some(Twin::Sent(memory_id.map(str::to_owned)));
        for memory in [meant_for(HERE, text), memory(text)] {
            let again = fixture.enqueue_again(&memory).await;
            assert_eq!((again.outbox_id, &again.twin), (id, &twin), "{text}");
        }
        let known_here = open(&fixture, &to(HERE, opening(1, text))).await;
        assert_eq!(known_here, OpenResult::Known(known), "{text}");
        // The backend has lost it since: it is deferred once more, with its text.
        let anew = fixture.defer_with_error(2, &meant_for(HERE, text)).await;
        assert_ne!(anew, id);
        assert_eq!(fixture.row(anew).await.payload_md, text);
        let elsewhere = fixture.enqueue_again(&meant_for(THERE, text)).await;
        assert_eq!(elsewhere.twin, None, "its backend does not have {text}");
        assert_eq!(fixture.claim("w1", 2).await.len(), 2);
        assert!(fixture.ack(anew, "w1", memory_id).await);
        assert!(fixture.ack(elsewhere.outbox_id, "w1", memory_id).await);
    }
    fixture.is_sound().await;
}

/// There is nothing to send: the same text gets a row of its own, and its backend is asked first.
pub(crate) async fn a_dead_memory_that_was_erased_is_enqueued_anew(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let dead = fixture.put(&meant_for(HERE, "text")).await;
    fixture.give_up_next(dead).await;
    fixture.erased(dead).await;
    let moved = fixture.stage.store.requeue(&[dead], &by()).await;
    assert_eq!(moved.expect("requeue answers")[0].answer, Move::Erased);
    let doubt = OpenResult::Pending { in_doubt: true };
    for (n, backend, expected) in [(1, HERE, doubt), (2, THERE, fresh())] {
        let begun = open(&fixture, &to(backend, opening(n, "text"))).await;
        assert_eq!(begun, expected, "{backend}");
        assert!(fixture.finalize(n, &failed()).await);
    }
    assert_eq!(fixture.known_in("text", None).await, None);
    let anew = fixture.enqueue_again(&meant_for(HERE, "text")).await;
    assert_eq!(anew.twin, None);
    assert_ne!(anew.outbox_id, dead);
    let again = fixture.defer_with_error(3, &meant_for(HERE, "text")).await;
    assert_eq!(again, anew.outbox_id, "one of them waits");
    let row = fixture.row(dead).await;
    assert_eq!(
        (row.status, row.payload_md.as_str()),
        (OutboxStatus::Dead, "[erased]")
    );
    assert_eq!(fixture.claim_ids("w1", 2).await, [anew.outbox_id]);
    assert!(fixture.ack(anew.outbox_id, "w1", Some("mem-1")).await);
    let known = fixture.known_in("text", Some(HERE)).await;
    let expected = KnownMemory {
        outbox_id: Some(anew.outbox_id),
        memory_id: Some("mem-1".to_owned()),
    };
    assert_eq!(known, Some(expected));
    fixture.is_sound().await;
}

pub(crate) async fn an_erased_memory_leaves(harness: &dyn Harness) {
    let (fixture, maintenance) = maintained(harness).await;
    let sent = fixture
        .deliver(&meant_for(HERE, "sent"), Some("mem-1"))
        .await;
    let dead = fixture.put(&meant_for(HERE, "dead")).await;
    fixture.give_up_next(dead).await;
    for id in [sent, dead] {
        fixture.erased(id).await;
    }
    fixture.begin(9, "sent").await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1, "a request is about the other");
    assert!(fixture.finalize(9, &failed()).await);
    assert_eq!(maintenance.leave().await, 1);
    let known = KnownMemory {
        outbox_id: Some(sent),
        memory_id: Some("mem-1".to_owned()),
    };
    assert_eq!(fixture.known_in("sent", Some(HERE)).await, Some(known));
    assert_eq!(fixture.known_in("sent", Some(THERE)).await, None);
    let again = fixture.enqueue_again(&meant_for(HERE, "sent")).await;
    let twin = Some(Twin::Sent(Some("mem-1".to_owned())));
    assert_eq!((again.outbox_id, again.twin), (sent, twin));
    let doubt = OpenResult::Pending { in_doubt: true };
    assert_eq!(open(&fixture, &to(HERE, opening(1, "dead"))).await, doubt);
    assert!(fixture.finalize(1, &failed()).await);
    let anew = fixture.enqueue_again(&meant_for(HERE, "dead")).await;
    assert_eq!(anew.twin, None);
    assert_ne!(anew.outbox_id, dead);
    fixture.is_sound().await;
}

/// Removed from the embedded memories, a text that was erased may be stored again.
pub(crate) async fn an_erased_text_may_be_stored_again(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let kept = fixture
        .book
        .keep(&memory("text"))
        .await
        .expect("keep answers");
    let id = fixture
        .deliver(&memory("text"), Some(&kept.memory_id))
        .await;
    fixture.erased(id).await;
    let keeping = |n| Opening {
        kept: Some(memory("text")),
        ..opening(n, "text")
    };
    assert!(matches!(
        open(&fixture, &keeping(1)).await,
        OpenResult::Known(_)
    ));
    let removed = fixture.book.delete_kept(&kept.memory_id, None).await;
    assert!(removed.expect("delete_kept answers"));
    assert!(matches!(
        open(&fixture, &keeping(2)).await,
        OpenResult::Kept(_)
    ));
    let again = fixture.audit_of(2).await;
    assert_eq!(
        at(&again.evidence_refs_json, "/extra/stored_again"),
        &json!(true)
    );
    let deferred = fixture.defer_with_error(3, &memory("other")).await;
    assert_ne!(deferred, id);
    fixture.is_sound().await;
}
