//! Reading kept memories without searching: filters, pages, spaces.

use std::collections::BTreeSet;

use consign_memory::{AuditStatus, Listing, MemoryFilter, MemoryItem, NewMemory, Search};

use super::Harness;
use super::fixture::{MemoryFixture, audit, corr, memory, stored};
use consign_conformance::stage::{refused, s};

fn listing(limit: u32) -> Listing {
    Listing {
        spaces: vec!["team:p".to_owned(), "team:q".to_owned()],
        limit,
        ..Listing::default()
    }
}

fn texts(items: &[MemoryItem]) -> Vec<&str> {
    items.iter().map(|item| &*item.text).collect()
}

/// Ten memories a second apart: even ones in team:p by alice, odd ones in team:q by bob, every third a
/// decision; and one in another space.
async fn furnish(fixture: &MemoryFixture<'_>) {
    for n in 0..10 {
        let is_even = n % 2 == 0;
        let new = NewMemory {
            target_space: if is_even { "team:p" } else { "team:q" }.to_owned(),
            actor_user_id: Some(if is_even { "alice" } else { "bob" }.to_owned()),
            kind: (n % 3 == 0).then(|| "DECISION".to_owned()),
            ..memory(&format!("word {n}"))
        };
        fixture.book.keep(&new).await.expect("keep answers");
        fixture.stage.advance(s(1)).await;
    }
    let elsewhere = NewMemory {
        target_space: "private:alice".to_owned(),
        ..memory("word elsewhere")
    };
    fixture.book.keep(&elsewhere).await.expect("keep answers");
}

pub(crate) async fn kept_memories_are_listed_newest_first(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    furnish(&fixture).await;
    let mut seen = Vec::new();
    let mut wanted = listing(4);
    let mut pages = 0;
    loop {
        let page = fixture.book.list_kept(&wanted).await;
        let page = page.expect("list_kept answers");
        assert!(page.items.len() <= 4);
        assert!(page.items.iter().all(|item| item.score.is_none()));
        seen.extend(page.items);
        pages += 1;
        // What comes meanwhile is on no later page.
        let new = memory(&format!("late {pages}"));
        fixture.book.keep(&new).await.expect("keep answers");
        match page.next {
            Some(next) => wanted.cursor = Some(next),
            None => break,
        }
    }
    let expected: Vec<String> = (0..10).rev().map(|n| format!("word {n}")).collect();
    assert_eq!(texts(&seen), expected);
    assert_eq!(pages, 3);
    let exact = fixture.book.list_kept(&listing(13)).await;
    let exact = exact.expect("list_kept answers");
    assert_eq!((exact.items.len(), exact.next), (13, None));
    for cursor in ["", "x", "12", "x:mem_1", "99999999999999999999:mem_1"] {
        let nonsense = Listing {
            cursor: Some(cursor.to_owned()),
            ..listing(1)
        };
        refused(fixture.book.list_kept(&nonsense).await, "invalid_input");
    }
}

/// Equal times do not lose anything between two pages.
pub(crate) async fn memories_of_one_moment_are_listed_once_each(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    for n in 0..7 {
        let kept = fixture.book.keep(&memory(&format!("word {n}"))).await;
        kept.expect("keep answers");
    }
    let mut seen = BTreeSet::new();
    let mut wanted = listing(2);
    loop {
        let page = fixture.book.list_kept(&wanted).await;
        let page = page.expect("list_kept answers");
        for item in page.items {
            assert!(seen.insert(item.text), "twice");
        }
        match page.next {
            Some(next) => wanted.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 7);
}

fn by(set: impl FnOnce(&mut MemoryFilter)) -> MemoryFilter {
    let mut filter = MemoryFilter::default();
    set(&mut filter);
    filter
}

/// The same filter means the same to a search and to a list.
pub(crate) async fn filters_hold_for_searches_and_lists(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let start = fixture.stage.now().await;
    furnish(&fixture).await;
    let at = |second: i64| Some(start + jiff::SignedDuration::from_secs(second));
    let text = |text: &str| Some(text.to_owned());
    let all = MemoryFilter::default;
    for (filter, expected) in [
        (all(), vec![9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (
            by(|filter| filter.kind = text("DECISION")),
            vec![9, 6, 3, 0],
        ),
        (by(|filter| filter.kind = text("decision")), vec![]),
        (by(|filter| filter.actor = text("bob")), vec![9, 7, 5, 3, 1]),
        (by(|filter| filter.since = at(7)), vec![9, 8, 7]),
        (by(|filter| filter.until = at(2)), vec![1, 0]),
        (
            by(|filter| {
                filter.since = at(3);
                filter.until = at(4);
            }),
            vec![3],
        ),
        (
            by(|filter| {
                filter.actor = text("alice");
                filter.kind = text("DECISION");
                filter.since = at(1);
            }),
            vec![6],
        ),
    ] {
        let expected: Vec<String> = expected.iter().map(|n| format!("word {n}")).collect();
        let wanted = Listing {
            filter: filter.clone(),
            ..listing(100)
        };
        let page = fixture.book.list_kept(&wanted).await;
        assert_eq!(
            texts(&page.expect("list_kept answers").items),
            expected,
            "{filter:?}"
        );
        let search = Search {
            query: "word".to_owned(),
            spaces: wanted.spaces,
            filter: filter.clone(),
            top_k: 100,
        };
        let found = fixture.book.search_kept(&search).await;
        assert_eq!(
            texts(&found.expect("search_kept answers")),
            expected,
            "{filter:?}"
        );
    }
}

/// Every space with a memory, once, whichever backend it was stored in and however.
pub(crate) async fn spaces_are_those_that_memories_were_stored_in(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let spaces = || async {
        fixture
            .book
            .memory_spaces()
            .await
            .expect("memory_spaces answers")
    };
    assert_eq!(spaces().await, [""; 0]);
    for (n, space, ends) in [
        (1, "team:p", true),
        (2, "private:alice", true),
        (3, "team:p", true),
        (4, "team:pending", false),
    ] {
        let mut new = audit(n, &format!("text {n}"), AuditStatus::Pending);
        new.target_space = space.to_owned();
        fixture
            .book
            .insert_audit(&new)
            .await
            .expect("insert_audit answers");
        if ends {
            let ended = fixture
                .book
                .finalize_audit(&corr(n), &stored("mem-1"))
                .await;
            assert!(ended.expect("finalize_audit answers"));
        }
    }
    let found: BTreeSet<String> = spaces().await.into_iter().collect();
    let expected = ["private:alice", "team:p"].map(str::to_owned);
    assert_eq!(found, expected.into());
    assert_eq!(spaces().await.len(), 2);
}
