//! What is left of a text that was removed from the memories and erased from the outbox: nothing, in the database and
//! in the archive.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_archive::Archive;
use consign_conformance::stage::{by, s};
use consign_kernel::{
    Certainty, ErasureAnswer, Error, Layer, LayeredStore, QueuePolicy, Result, Store,
};
use consign_memory::{AuditStatus, NewMemory};
use consign_retention::{Maintenance, Options};
use serde_json::json;

use crate::{
    cases::{
        Harness,
        fixture::{MemoryFixture, audit, corr, memory, put_off},
        retention::keeping,
    },
    harness::{postgres_fixture, sqlite_fixture},
};

/// A store whose process ends before anything departs: the archive has a copy of what stays.
struct KilledBeforeDepart(Arc<dyn Store>);

#[async_trait]
impl Layer for KilledBeforeDepart {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        if operation != "depart" {
            return Ok(());
        }
        Err(Error::Unavailable {
            attempted: operation,
            certainty: Certainty::Unknown,
            source: "killed here".into(),
        })
    }

    async fn after(&self, _operation: &'static str, _succeeded: bool) -> Result<()> {
        Ok(())
    }
}

/// A word of the text, of an error and of a header, as full-text indexes have them too.
const WORDS: [&str; 3] = ["xylotom", "wyvern", "zorilla"];
const TEXT: &str = "The xylotomous quaggas of Jane Doe";
const ERROR: &str = "api_error: 503 - wyvern";

fn is_in(content: &[u8], word: &str) -> bool {
    let content = content.to_ascii_lowercase();
    content
        .windows(word.len())
        .any(|part| part == word.as_bytes())
}

fn maintenance(store: Arc<dyn Store>, folder: &Path) -> Maintenance {
    let options = Options {
        owner: "test".to_owned(),
        archive: Some(Archive::open(folder).expect("the archive opens")),
        store: "test",
        range_messages: 1_000_000,
        range_age: Duration::ZERO,
        size_max_bytes: None,
    };
    Maintenance::new(store, options)
}

/// The records of an archive, as text.
fn archived(folder: &Path) -> String {
    let archive = Archive::open(folder).expect("the archive opens");
    let manifests = archive.manifests().expect("the archive has manifests");
    assert_eq!(manifests.len(), 1);
    let files = std::fs::read_dir(folder).expect("a folder");
    let is_data = |name: &str| name.ends_with(".zst");
    let data = files.filter(|file| {
        let name = file.as_ref().expect("a file").file_name();
        is_data(&name.to_string_lossy())
    });
    assert_eq!(data.count(), 1, "no file of before");
    let records = archive.read(&manifests[0]).expect("the archive is read");
    let text = |record: consign_archive::Result<_>| format!("{:?}", record.expect("a record"));
    records.map(text).collect::<Vec<_>>().join("\n")
}

/// `content` returns all that the database holds.
async fn nothing_is_left(harness: &dyn Harness, content: impl AsyncFn() -> Vec<u8>) {
    let fixture = MemoryFixture::with(harness, keeping()).await;
    let memory = NewMemory {
        last_error: Some(ERROR.to_owned()),
        correlation_id: Some(corr(1)),
        meta_json: json!({"tame": "zorilla"})
            .as_object()
            .cloned()
            .expect("an object"),
        ..memory(TEXT)
    };
    fixture.begin(1, TEXT).await;
    let mut end = put_off();
    end.patch =
        json!({"extra": {"last_error": ERROR}, "gateway_event": {"extra": {"last_error": ERROR}}});
    let deferred = fixture.book.defer(&memory, &corr(1), &end).await;
    let id = deferred.expect("defer answers").enqueued.outbox_id;
    fixture.claim("w1", 1).await;
    assert!(fixture.retry(id, "w1", ERROR, s(0)).await);
    fixture.claim("w1", 1).await;
    let kept = fixture.book.keep(&memory).await.expect("keep answers");
    assert!(fixture.ack(id, "w1", Some(&kept.memory_id)).await);

    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::clone(&fixture.stage.store);
    fixture.stage.advance(s(60)).await;
    let killed = Arc::new(LayeredStore(KilledBeforeDepart(Arc::clone(&store))));
    maintenance(killed, folder.path())
        .pass()
        .await
        .expect_err("killed");
    let before = content().await;
    for word in WORDS {
        assert!(is_in(&before, word), "{word}");
        assert!(is_in(archived(folder.path()).as_bytes(), word), "{word}");
    }

    let mut removal = audit(2, "", AuditStatus::Success);
    removal.payload_sha = None;
    removal.reason = Some("memory_delete".to_owned());
    let removed = fixture.book.delete_kept(&kept.memory_id, Some(&removal));
    assert!(removed.await.expect("delete_kept answers"));
    assert_eq!(fixture.erase(id).await, ErasureAnswer::Erased);
    // It stays, so only the maintenance reaches the archive.
    let keep = QueuePolicy {
        keep_ms: Some(3_600_000),
        ..keeping()
    };
    let kept = store
        .put_queue(&consign_memory::queue(), &keep, &by())
        .await;
    kept.expect("put_queue answers");
    fixture.stage.advance(s(61)).await;
    let pass = maintenance(Arc::clone(&store), folder.path()).pass().await;
    assert_eq!(pass.expect("a pass").departed, 0);
    let after = content().await;
    for word in WORDS {
        assert!(!is_in(&after, word), "{word} is in the database");
        assert!(
            !is_in(archived(folder.path()).as_bytes(), word),
            "{word} is in the archive"
        );
    }
    assert!(is_in(&after, &memory.payload_sha()), "the hash stays");
    assert_eq!(
        store.due_erasures(10).await.expect("due_erasures answers"),
        []
    );
}

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_is_left_of_a_memory_that_was_removed_and_erased() {
        let fixture = sqlite_fixture().await;
        nothing_is_left(&fixture, async || {
            let mut connection = fixture.connect().await;
            let checkpoint = sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)");
            let (busy, ..): (i64, i64, i64) = checkpoint.fetch_one(&mut connection).await.unwrap();
            assert_eq!(busy, 0, "the whole log is in the file");
            std::fs::read(fixture.path()).unwrap()
        })
        .await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_is_left_of_a_memory_that_was_removed_and_erased() {
        let fixture = postgres_fixture().await;
        nothing_is_left(&fixture, async || {
            let dump = Command::new("pg_dump").arg(fixture.url()).output();
            let dump = dump.unwrap();
            assert!(dump.status.success(), "{dump:?}");
            dump.stdout
        })
        .await;
    }
}
