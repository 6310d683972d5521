//! Full-text search in the logbook and in kept memories.

use std::{collections::BTreeSet, sync::Arc};

use consign_memory::{FallbackHit, MemoryItem, NewItem, NewMemory, Search};
use serde_json::json;
use tokio::task::JoinSet;

use super::Harness;
use super::{
    facts::{candidate, event, item, map},
    fixture::{MemoryFixture, memory},
};
use consign_conformance::stage::{all, refused, s};

fn spaces(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn search(query: &str, names: &[&str]) -> Search {
    Search {
        query: query.to_owned(),
        spaces: spaces(names),
        top_k: 10,
        ..Search::default()
    }
}

impl MemoryFixture<'_> {
    async fn keep(&self, memory: &NewMemory) -> String {
        let kept = self.book.keep(memory).await.expect("keep answers");
        assert!(kept.is_new, "new: {kept:?}");
        kept.memory_id
    }

    async fn keep_text(&self, text: &str) -> String {
        self.keep(&memory(text)).await
    }

    async fn search(&self, query: &str, names: &[&str]) -> Vec<MemoryItem> {
        self.find(&search(query, names)).await
    }

    async fn find(&self, search: &Search) -> Vec<MemoryItem> {
        let found = self.book.search_kept(search).await;
        found.expect("search_kept answers")
    }

    /// The texts found in the team's space, best first.
    async fn texts(&self, query: &str) -> Vec<String> {
        let found = self.search(query, &["team:p"]).await;
        found.into_iter().map(|hit| hit.text).collect()
    }

    async fn fall_back(&self, query: &str, names: &[&str]) -> Vec<FallbackHit> {
        let found = self.book.search_logbook(query, &spaces(names), 10).await;
        found.expect("search_logbook answers")
    }
}

pub(crate) async fn a_memory_is_kept_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let first = memory("the lease ran out");
    let name = fixture.keep(&first).await;
    assert!(name.starts_with("mem_"), "{name}");
    let later = NewMemory {
        kind: Some("DECISION".to_owned()),
        ..first.clone()
    };
    let again = fixture.book.keep(&later).await.expect("keep answers");
    assert_eq!((again.memory_id.as_str(), again.is_new), (&*name, false));
    let elsewhere = NewMemory {
        target_space: "private:alice".to_owned(),
        ..first.clone()
    };
    let other = fixture.keep(&elsewhere).await;
    assert_ne!(other, name, "another space, another memory");
    let sha = first.payload_sha();
    for (space, sha, expected) in [
        ("team:p", sha.as_str(), Some(name)),
        ("private:alice", &sha, Some(other)),
        ("team:q", &sha, None),
        ("team:p", &sha[1..], None),
    ] {
        let kept = fixture.book.kept(space, sha).await.expect("kept answers");
        assert_eq!(kept, expected, "{space} {sha}");
    }
    let nowhere = NewMemory {
        target_space: String::new(),
        ..first
    };
    refused(fixture.book.keep(&nowhere).await, "invalid_input");
}

pub(crate) async fn a_memory_kept_by_ten_at_once_is_one(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let other = harness.another_book().await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let book = Arc::clone(if n % 2 == 0 { &fixture.book } else { &other });
        tasks.spawn(async move { book.keep(&memory("text")).await.expect("keep answers") });
    }
    let kept = all(tasks).await;
    let names: BTreeSet<&str> = kept.iter().map(|kept| &*kept.memory_id).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(kept.iter().filter(|kept| kept.is_new).count(), 1);
    assert_eq!(fixture.texts("text").await.len(), 1);
}

pub(crate) async fn a_kept_memory_is_found_as_it_was_kept(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let new = NewMemory {
        kind: Some("PITFALL".to_owned()),
        actor_user_id: Some("alice".to_owned()),
        meta_json: map(json!({"pr": 7})),
        evidence: vec![json!({"uri": "https://x"})],
        ..memory("Leases run out.\nRenew them!")
    };
    let memory_id = fixture.keep(&new).await;
    let found = fixture.search("LEASES", &["team:p"]).await;
    let [hit] = &found[..] else {
        panic!("one hit: {found:?}");
    };
    let expected = MemoryItem {
        id: memory_id,
        text: new.payload_md,
        space: "team:p".to_owned(),
        kind: new.kind,
        actor: new.actor_user_id,
        created_at: Some(fixture.stage.now().await),
        score: hit.score,
        evidence: new.evidence,
        meta: new.meta_json,
        supersedes: None,
        superseded_by: None,
    };
    assert!(hit.score.is_some(), "{hit:?}");
    assert_eq!(*hit, expected);
    let read = fixture.book.read_kept(&expected.id).await;
    let unscored = MemoryItem {
        score: None,
        ..expected
    };
    assert_eq!(read.expect("read_kept answers"), Some(unscored));
    let nobody = fixture.book.read_kept("mem_0").await;
    assert_eq!(nobody.expect("read_kept answers"), None);
}

pub(crate) async fn any_word_fits_and_more_are_better(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    for text in [
        "lease and fence and token",
        "a lease",
        "a fence and a lease",
        "nothing of it",
        "another lease",
    ] {
        fixture.keep_text(text).await;
        fixture.stage.advance(s(1)).await;
    }
    let found = fixture.search("fence lease token", &["team:p"]).await;
    let texts: Vec<&str> = found.iter().map(|hit| &*hit.text).collect();
    let expected = [
        "lease and fence and token",
        "a fence and a lease",
        "another lease",
        "a lease",
    ];
    assert_eq!(texts, expected, "of equals, the newer one");
    assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{found:?}");
    let one = Search {
        top_k: 1,
        ..search("fence lease", &["team:p"])
    };
    assert_eq!(fixture.find(&one).await.len(), 1);
}

/// Nothing in a query is an operator or a wildcard.
pub(crate) async fn a_query_is_words_and_nothing_else(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    fixture.keep_text("one two").await;
    fixture.keep_text("onerous").await;
    let content = candidate("team:p", "one", "two");
    fixture
        .book
        .add_candidate(&content)
        .await
        .expect("an answer");
    for query in [
        "", " ", "%", "_", "*", "o*", "o%", "o:*", "\"", "'", "''", "\\", "(", "())", "!", "&",
        "|", "<->", "-", "--", ":", "AND", "OR", "NOT", "NEAR", "text : x", "^x", "{x}",
        "x'; DROP",
    ] {
        assert_eq!(fixture.texts(query).await, [""; 0], "{query:?}");
        assert_eq!(fixture.fall_back(query, &["team:p"]).await, [], "{query:?}");
    }
    for query in [
        "one",
        "ONE",
        "\"one\"",
        "one*",
        "(one)",
        "one AND three",
        "NOT one",
        "!one",
        "-one",
        "one & three",
        "content:one",
        "'one'",
        "one:*",
        "one\ttwo",
    ] {
        assert_eq!(fixture.texts(query).await, ["one two"], "{query:?}");
        assert_eq!(
            fixture.fall_back(query, &["team:p"]).await.len(),
            1,
            "{query:?}"
        );
    }
    let long = "word ".repeat(2_000) + "one";
    assert!(
        fixture.texts(&long).await.len() <= 1,
        "an answer, not an error"
    );
}

/// Only requested spaces are searched.
pub(crate) async fn a_search_stays_in_its_spaces(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let all = ["team:p", "team:q", "private:alice"];
    let project = fixture.make(&item("of project p")).await;
    for space in all {
        let memory = NewMemory {
            target_space: space.to_owned(),
            ..memory("secret")
        };
        fixture.keep(&memory).await;
        let known = candidate(space, "secret", space);
        fixture.book.add_candidate(&known).await.expect("an answer");
        let told = event(project, json!({"space": space, "note": "secret"}));
        fixture.tell(&told).await;
    }
    for names in [&all[..1], &all[1..], &all[..], &[], &["team:"], &["team:%"]] {
        let asked: BTreeSet<&str> = names.iter().copied().filter(|n| all.contains(n)).collect();
        let found = fixture.search("secret", names).await;
        let seen: BTreeSet<&str> = found.iter().map(|hit| &*hit.space).collect();
        assert_eq!(seen, asked, "{names:?}");
        assert_eq!(found.len(), asked.len(), "{names:?}");
        let found = fixture.fall_back("secret", names).await;
        let seen: BTreeSet<&str> = found.iter().map(|hit| &*hit.space).collect();
        assert_eq!(seen, asked, "{names:?}");
        assert_eq!(found.len(), 2 * asked.len(), "{names:?}");
    }
}

/// An English word finds its other forms; words of other languages are found as before.
pub(crate) async fn english_words_are_found_in_their_other_forms(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    for text in [
        "Three lamps on the desk",
        "The importer was deployed twice",
        "Categories of alarms",
        "Die Lampen stehen in Straßen und Wäldern",
        "Les réseaux de l'été",
        "no es así",
    ] {
        fixture.keep_text(text).await;
    }
    for (query, expected) in [
        ("lamp", "Three lamps on the desk"),
        ("LAMPS", "Three lamps on the desk"),
        ("desks", "Three lamps on the desk"),
        ("deploying", "The importer was deployed twice"),
        ("deploys", "The importer was deployed twice"),
        ("alarming", "Categories of alarms"),
        ("category", "Categories of alarms"),
        ("lampen", "Die Lampen stehen in Straßen und Wäldern"),
        ("straßen", "Die Lampen stehen in Straßen und Wäldern"),
        ("wäldern", "Die Lampen stehen in Straßen und Wäldern"),
        ("réseaux", "Les réseaux de l'été"),
        // Words that English texts could do without may be all that another language has.
        ("no", "no es así"),
        ("die", "Die Lampen stehen in Straßen und Wäldern"),
    ] {
        assert_eq!(fixture.texts(query).await, [expected], "{query}");
    }
    for query in ["lam", "plamp", "cat", "est"] {
        assert_eq!(fixture.texts(query).await, [""; 0], "{query}");
    }
    let known = candidate("team:p", "Lamps", "they burn out");
    fixture.book.add_candidate(&known).await.expect("an answer");
    let project = fixture.make(&item("text")).await;
    fixture
        .tell(&event(project, json!({"note": "two lamps"})))
        .await;
    assert_eq!(fixture.fall_back("lamp", &["team:p"]).await.len(), 2);
}

/// The seeds are written without spaces between words.
pub(crate) async fn scripts_without_spaces_are_found_by_their_parts(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    fixture.keep_text("租约已过期，需要重新领取").await;
    fixture.keep_text("期过").await;
    fixture.keep_text("plain").await;
    let known = candidate("team:p", "租约", "续期");
    fixture.book.add_candidate(&known).await.expect("an answer");
    let project = fixture.make(&item("text")).await;
    fixture
        .tell(&event(project, json!({"说明": "租约续期失败"})))
        .await;
    for (query, expected) in [
        ("过期", &["租约已过期，需要重新领取"][..]),
        ("重新", &["租约已过期，需要重新领取"]),
        ("约期", &[]),
    ] {
        assert_eq!(fixture.texts(query).await, expected, "{query}");
    }
    assert_eq!(fixture.fall_back("续期", &["team:p"]).await.len(), 2);
    assert_eq!(fixture.fall_back("失败", &["team:p"]).await.len(), 1);
}

/// Candidates by title and text, events by type and the strings of their payload.
pub(crate) async fn candidates_and_events_are_found(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let known = candidate("team:p", "Leases", "they run out");
    let id = fixture.book.add_candidate(&known).await.expect("an answer");
    let project = fixture.make(&item("the item's title")).await;
    let homeless = NewItem {
        project_key: None,
        ..item("no project")
    };
    let homeless = fixture.make(&homeless).await;
    let payload = json!({"note": "fences", "deep": [{"why": "grow"}], "n": 77});
    let told = fixture.tell(&event(project, payload)).await;
    let apart = json!({"space": "private:alice", "note": "fences"});
    let private = fixture.tell(&event(project, apart)).await;
    fixture
        .tell(&event(homeless, json!({"note": "fences"})))
        .await;

    for query in ["leases", "out", "RUN"] {
        let expected = FallbackHit {
            id: format!("kc_{id}"),
            space: "team:p".to_owned(),
            content: "they run out".to_owned(),
            title: "Leases".to_owned(),
            kind: "PITFALL".to_owned(),
            confidence: Some("high".to_owned()),
            evidence_refs: known.evidence_refs_json.clone(),
            created_at: fixture.stage.now().await,
        };
        let found = fixture.fall_back(query, &["team:p"]).await;
        assert_eq!(found, [expected], "{query}");
    }
    for query in ["fences", "grow", "note"] {
        let found = fixture.fall_back(query, &["team:p"]).await;
        let [hit] = &found[..] else {
            panic!("one hit for {query}: {found:?}");
        };
        assert_eq!(hit.id, format!("ev_{told}"), "{query}");
        assert_eq!(hit.title, "the item's title");
        assert_eq!((hit.kind.as_str(), &hit.confidence), ("note", &None));
        let lines: BTreeSet<&str> = hit.content.lines().collect();
        assert_eq!(lines, BTreeSet::from(["fences", "grow"]));
        assert_eq!(hit.evidence_refs, json!({}));
    }
    let found = fixture.fall_back("fences", &["private:alice"]).await;
    let ids: Vec<&str> = found.iter().map(|hit| &*hit.id).collect();
    assert_eq!(ids, [format!("ev_{private}")]);
    assert_eq!(found[0].content, "fences", "its space is no part of it");
    assert_eq!(fixture.fall_back("alice", &["private:alice"]).await, []);
}
