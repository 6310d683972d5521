//! Limits of the store's own making or keeping.

use consign_kernel::{Filter, PAGE_ENTRIES_MAX, prelude::*};

use crate::harness::{drain, fixture, messages};

#[tokio::test]
async fn a_page_is_no_longer_than_the_kernel_allows() {
    let bench = fixture().await;
    let count = PAGE_ENTRIES_MAX as usize + 1;
    bench.store.enqueue(&messages(count)).await.unwrap();
    let filter = Filter::default();
    let page = bench.store.list(&filter, None, u32::MAX).await.unwrap();
    assert_eq!(page.items.len(), PAGE_ENTRIES_MAX as usize);
    let rest = bench
        .store
        .list(&filter, page.next, u32::MAX)
        .await
        .unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    assert_eq!(drain(&bench.store, 1_000).await.len(), count);
}
