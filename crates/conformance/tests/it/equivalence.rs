//! The reference store is equivalent to itself: the comparison does not cry wolf.

use consign_conformance::{EQUIVALENCE_CASES, EQUIVALENCE_OPS, ReferenceFactory, equivalence};

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_is_equivalent_to_itself() {
    let factory = ReferenceFactory::default();
    equivalence(&factory, EQUIVALENCE_CASES, EQUIVALENCE_OPS).await;
}
