//! Killed at every point: no row is lost, none is doubled, and both cursors are right.

use consign_testkit::OpenMemory;
use serde_json::{Value, json};

use super::{commits, first, killed_at, open_team, repository::Git, table, texts, use_openmemory};
use crate::orders::bench::{Bench, on_both};

const MESSAGES: [&str; 5] = ["one", "two", "three", "four", "five"];

fn known(bench: &mut Bench) -> Git {
    bench.configure("[scm]\nbatch_records_max = 2\n");
    let git = Git::new(bench, "shop");
    git.commit(&MESSAGES);
    bench.consign.run(["scm", "add", git.path()]).expect(0);
    git
}

/// After every batch; what was written before is there, and the next one goes on behind it.
#[test]
fn a_synchronisation_killed_after_each_batch_goes_on_behind_it() {
    on_both(async |mut bench| {
        let git = known(&mut bench);
        let history = git.history();
        killed_at(&bench, &["scm", "sync"], "scm.after-fetch").await;
        assert_eq!(commits(&bench).await, Vec::<String>::new());
        killed_at(&bench, &["scm", "sync"], "scm.after-batch").await;
        assert_eq!(commits(&bench).await, history[..2]);
        killed_at(&bench, &["scm", "sync"], "scm.after-batch.1").await;
        assert_eq!(commits(&bench).await, history[..4]);
        let done = first(&bench, &["scm", "sync"]);
        assert_eq!(
            (&done["written"], &done["known"]),
            (&json!(1), &json!(0)),
            "{done}"
        );
        assert_eq!(commits(&bench).await, history);
        let done = first(&bench, &["scm", "sync"]);
        assert_eq!(done["written"], 0, "{done}");
        bench.doctor();
    });
}

/// The change is on disk, or in the database as well.
#[test]
fn fetching_killed_around_a_change_fetches_it_once() {
    on_both(async |mut bench| {
        known(&mut bench);
        bench.consign.run(["scm", "sync"]).expect(0);
        let fetch = ["scm", "materialize"];
        for (point, here) in [("scm.before-patch", 0), ("scm.after-patch.2", 2)] {
            killed_at(&bench, &fetch, point).await;
            let status = first(&bench, &["scm", "status"]);
            assert_eq!(status["patches_here"], here, "{point}: {status}");
        }
        let done = first(&bench, &fetch);
        assert_eq!(
            (&done["fetched"], &done["failed"]),
            (&json!(3), &json!(0)),
            "{done}"
        );
        let blobs = table(&bench, "scm.patch_blobs");
        let sql = format!("SELECT count(*) FROM {blobs} WHERE uri IS NOT NULL");
        assert_eq!(bench.sql().await.number(&sql).await, 5);
        assert_eq!(first(&bench, &fetch)["fetched"], 0);
        bench.doctor();
    });
}

fn cursor(bench: &Bench) -> Value {
    first(bench, &["scm", "status"])["consumed_position"].clone()
}

/// Whatever the point, every commit is one memory in the end, and the cursor is behind the last.
async fn ends_with_all(bench: &Bench, server: &OpenMemory) {
    bench.consign.run(["scm", "consume"]).expect(0);
    bench
        .consign
        .run(["work", "--queue", "memory", "--once"])
        .expect(0);
    let texts = texts(server).await;
    assert_eq!(
        texts.len(),
        MESSAGES.len(),
        "none lost, none doubled: {texts:#?}"
    );
    for message in MESSAGES {
        let summary = format!("[Summary]\n{message}\n");
        let found = texts.iter().filter(|text| text.contains(&summary)).count();
        assert_eq!(found, 1, "{message}: {texts:#?}");
    }
    let status = first(bench, &["scm", "status"]);
    assert_eq!(status["unconsumed"], 0, "{status}");
    assert_eq!(
        status["consumed_position"], status["last_position"],
        "{status}"
    );
    bench.doctor();
}

/// Nothing was sent; the server has it and nobody wrote that down.
#[test]
fn a_consumption_killed_around_the_memory_server_stores_every_card_once() {
    on_both(async |mut bench| {
        let server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        known(&mut bench);
        open_team(&bench);
        bench.consign.run(["scm", "sync"]).expect(0);
        let consume = ["scm", "consume"];
        killed_at(&bench, &consume, "memory.after_pending_audit").await;
        assert_eq!((texts(&server).await.len(), cursor(&bench)), (0, json!(0)));
        bench
            .consign
            .run(["scm", "consume", "--limit", "1"])
            .expect(0);
        let one = cursor(&bench);
        killed_at(&bench, &consume, "memory.after_backend").await;
        assert_eq!(
            texts(&server).await.len(),
            2,
            "stored, and not written down"
        );
        assert_eq!(cursor(&bench), one);
        ends_with_all(&bench, &server).await;
    });
}

/// What was put off is put off, and the cursor knows.
#[test]
fn a_consumption_killed_after_it_put_a_card_off_has_put_it_off() {
    on_both(async |mut bench| {
        let mut server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        known(&mut bench);
        open_team(&bench);
        bench.consign.run(["scm", "sync"]).expect(0);
        server.stop().await;
        killed_at(&bench, &["scm", "consume"], "memory.after_enqueue").await;
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(
            status["unconsumed"], 4,
            "it moved with the outbox: {status}"
        );
        let waiting = bench.consign.json(["memory", "ls"]);
        assert_eq!(waiting.as_array().unwrap().len(), 1, "{waiting}");
        server.restart().await;
        ends_with_all(&bench, &server).await;
    });
}
