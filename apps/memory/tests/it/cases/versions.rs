//! Newer versions of kept memories, and removing them.

use consign_memory::{
    AuditFilter, AuditStatus, Listing, MemoryItem, NewAudit, NewMemory, OpenResult, Opening,
    Search, payload_sha,
};
use serde_json::json;

use super::Harness;
use super::fixture::{MemoryFixture, audit, corr, memory};

fn version(text: &str, old: &str) -> NewMemory {
    NewMemory {
        supersedes: Some(old.to_owned()),
        ..memory(text)
    }
}

impl MemoryFixture<'_> {
    async fn kept_as(&self, memory: &NewMemory) -> (String, bool) {
        let kept = self.book.keep(memory).await.expect("keep answers");
        (kept.memory_id, kept.is_new)
    }

    /// What is found and listed: both must agree.
    async fn there_is(&self) -> Vec<String> {
        let spaces = vec!["team:p".to_owned()];
        let listing = Listing {
            spaces: spaces.clone(),
            limit: 100,
            ..Listing::default()
        };
        let listed = self
            .book
            .list_kept(&listing)
            .await
            .expect("list_kept answers");
        let mut listed: Vec<String> = listed.items.into_iter().map(|item| item.text).collect();
        listed.sort();
        let search = Search {
            query: "word".to_owned(),
            spaces,
            top_k: 100,
            ..Search::default()
        };
        let found = self
            .book
            .search_kept(&search)
            .await
            .expect("search_kept answers");
        let mut found: Vec<String> = found.into_iter().map(|item| item.text).collect();
        found.sort();
        assert_eq!(listed, found);
        listed
    }

    async fn reads(&self, id: &str) -> MemoryItem {
        let read = self.book.read_kept(id).await;
        read.expect("read_kept answers").expect("a memory")
    }

    async fn opens(&self, n: u64, text: &str) -> OpenResult {
        let opening = Opening {
            audit: audit(n, text, AuditStatus::Pending),
            settings: None,
            user_id: None,
            is_deduplicated: true,
            kept: Some(memory(text)),
        };
        let opened = self.book.open_write(&opening).await;
        opened.expect("open_write answers")
    }

    async fn delete(&self, id: &str, audit: Option<&NewAudit>) -> bool {
        let deleted = self.book.delete_kept(id, audit).await;
        deleted.expect("delete_kept answers")
    }
}

/// The audit of a removal.
fn removal(n: u64) -> NewAudit {
    NewAudit {
        payload_sha: None,
        reason: Some("memory_delete".to_owned()),
        evidence_refs_json: json!({"gateway_event": {"operation": "memory_delete"}}),
        ..audit(n, "", AuditStatus::Success)
    }
}

/// The newer one names the old one, which is not found any more but can be read.
pub(crate) async fn a_newer_version_replaces_the_old_one(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let (old, _) = fixture.kept_as(&memory("word one")).await;
    let (new, is_new) = fixture.kept_as(&version("word two", &old)).await;
    assert!(is_new);
    assert_eq!(fixture.there_is().await, ["word two"]);
    let (was, is) = (fixture.reads(&old).await, fixture.reads(&new).await);
    assert_eq!(
        (was.supersedes, was.superseded_by.as_ref()),
        (None, Some(&new))
    );
    assert_eq!(
        (is.supersedes.as_ref(), is.superseded_by),
        (Some(&old), None)
    );
    // The old text may be kept again, as a memory of its own.
    assert_eq!(
        fixture
            .book
            .kept("team:p", &payload_sha("word one"))
            .await
            .expect("kept answers"),
        None
    );
    let (again, is_new) = fixture.kept_as(&memory("word one")).await;
    assert!(is_new && again != old);
    assert_eq!(fixture.there_is().await, ["word one", "word two"]);
    // The same version once more is the same one; what it replaced stays replaced by the first.
    assert_eq!(
        fixture.kept_as(&version("word two", &old)).await,
        (new.clone(), false)
    );
    // A text that is there already replaces too, and never itself.
    assert_eq!(
        fixture.kept_as(&version("word two", &again)).await,
        (new.clone(), false)
    );
    assert_eq!(fixture.there_is().await, ["word two"]);
    assert_eq!(
        fixture.kept_as(&version("word two", &new)).await,
        (new, false)
    );
    assert_eq!(fixture.there_is().await, ["word two"]);
    // Nothing is replaced in another space.
    let elsewhere = NewMemory {
        target_space: "team:q".to_owned(),
        ..memory("word three")
    };
    let (elsewhere, _) = fixture.kept_as(&elsewhere).await;
    fixture.kept_as(&version("word four", &elsewhere)).await;
    assert_eq!(fixture.reads(&elsewhere).await.superseded_by, None);
}

/// Otherwise all of them would be hidden.
pub(crate) async fn memories_do_not_replace_each_other_in_a_circle(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let mut ids = Vec::new();
    for text in ["word one", "word two", "word three"] {
        ids.push(fixture.kept_as(&memory(text)).await.0);
    }
    for (old, new) in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 2)] {
        let replaced = fixture.book.supersede_kept(&ids[old], &ids[new]).await;
        replaced.expect("supersede_kept answers");
    }
    assert_eq!(fixture.there_is().await, ["word three"]);
}

pub(crate) async fn a_memory_stays_where_its_removal_cannot_be_audited(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let (id, _) = fixture.kept_as(&memory("word one")).await;
    let nameless = NewAudit {
        correlation_id: None,
        status: AuditStatus::Pending,
        ..removal(1)
    };
    let deleted = fixture.book.delete_kept(&id, Some(&nameless)).await;
    deleted.expect_err("a pending audit needs its correlation id");
    assert_eq!(fixture.there_is().await, ["word one"]);
}

pub(crate) async fn a_removed_memory_takes_its_versions_along(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let (first, _) = fixture.kept_as(&memory("word one")).await;
    let (second, _) = fixture.kept_as(&version("word two", &first)).await;
    let (third, _) = fixture.kept_as(&version("word three", &second)).await;
    let (other, _) = fixture.kept_as(&memory("word other")).await;
    assert!(fixture.delete(&third, Some(&removal(1))).await);
    assert_eq!(fixture.there_is().await, ["word other"]);
    for id in [&first, &second, &third] {
        let read = fixture.book.read_kept(id).await.expect("read_kept answers");
        assert_eq!(read, None, "{id}");
    }
    assert!(
        !fixture.delete(&third, Some(&removal(2))).await,
        "it is gone"
    );
    assert!(fixture.delete(&other, None).await);
    let audits = fixture.audits(&AuditFilter::default()).await;
    let names: Vec<Option<String>> = audits
        .into_iter()
        .map(|audit| audit.correlation_id)
        .collect();
    assert_eq!(names, [Some(corr(1))], "what was not done is not audited");
}

/// Deletion and dedup agree: a deleted memory is stored again on request.
pub(crate) async fn a_removed_text_may_be_stored_again(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let OpenResult::Kept(first) = fixture.opens(1, "word one").await else {
        panic!("kept")
    };
    assert!(matches!(
        fixture.opens(2, "word one").await,
        OpenResult::Known(_)
    ));
    assert!(fixture.delete(&first.memory_id, Some(&removal(3))).await);
    let OpenResult::Kept(second) = fixture.opens(4, "word one").await else {
        panic!("kept again")
    };
    assert!(second.is_new && second.memory_id != first.memory_id);
    assert_eq!(fixture.there_is().await, ["word one"]);
}
