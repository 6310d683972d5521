//! The store as the conformance suite examines it, and messages for tests.

use async_trait::async_trait;
pub(crate) use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_conformance::{Factory, Harness};
use consign_kernel::{Claim, MessageId, NewMessage, QueueName, Report, SettleAnswer, prelude::*};
use consign_sqlite::SqliteStore;
use serde_json::json;

/// Makes fresh stores in files of their own.
#[derive(Debug, Default)]
pub(crate) struct SqliteFactory;

#[async_trait]
impl Factory for SqliteFactory {
    async fn fresh(&self) -> Box<dyn Harness> {
        Box::new(fixture().await)
    }
}

/// A file with the engine alone.
pub(crate) async fn fixture() -> SqliteFixture {
    SqliteFixture::new(|options| options).await
}

/// The queue every store is born with.
pub(crate) fn queue() -> QueueName {
    "default".parse().unwrap()
}

/// `count` messages for it.
pub(crate) fn messages(count: usize) -> Vec<NewMessage> {
    (0..count)
        .map(|n| NewMessage::new(queue(), json!({ "n": n })))
        .collect()
}

/// Claims from it.
pub(crate) fn claim(limit: u32) -> Claim {
    Claim::new(queue(), "worker-1", limit)
}

/// Claims and delivers until nothing is due; answers with what it saw, in order.
pub(crate) async fn drain(store: &SqliteStore, limit: u32) -> Vec<MessageId> {
    let mut seen = Vec::new();
    while let Some(lease) = store.claim(&claim(limit)).await.unwrap() {
        let ids: Vec<MessageId> = lease.messages.iter().map(|m| m.message.id).collect();
        let reports: Vec<Report> = ids.iter().copied().map(Report::delivered).collect();
        let answer = store.settle(lease.token, &reports).await.unwrap();
        assert!(matches!(answer, SettleAnswer::Settled(_)), "{answer:?}");
        seen.extend(ids);
    }
    seen
}
