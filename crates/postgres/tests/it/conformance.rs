//! The suite that specifies every store, over this one.

use crate::harness::PostgresFactory;

consign_conformance::suite!(PostgresFactory { low_water: true });

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_are_answered_as_by_the_reference() {
    consign_conformance::equivalence(&PostgresFactory { low_water: false }, 64, 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_walks_are_cut_and_lose_nothing() {
    let factory = PostgresFactory { low_water: true };
    consign_conformance::long_walks_are_cut_and_lose_nothing(&factory).await;
}
