//! The rules of every store, and step-by-step equality with the reference store.

use crate::harness::SqliteFactory;

consign_conformance::suite!(SqliteFactory);

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_the_references() {
    consign_conformance::equivalence(
        &SqliteFactory,
        consign_conformance::EQUIVALENCE_CASES,
        consign_conformance::EQUIVALENCE_OPS,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_walks_are_cut_and_lose_nothing() {
    consign_conformance::long_walks_are_cut_and_lose_nothing(&SqliteFactory).await;
}
