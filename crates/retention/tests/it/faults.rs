//! A pass that fails at any step, and the pass after it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use consign_kernel::{
    Certainty, Error, Layer, LayeredStore, NewMessage, Refusal, Result, Store, prelude::*,
};
use consign_retention::End;
use serde_json::json;

use crate::support::{Stage, deliver_in, queue};

/// A store that fails after some operations: before the next one, or after it was done.
struct Failing {
    inner: Arc<dyn Store>,
    left: AtomicI64,
    after: bool,
}

impl Failing {
    fn fail(&self, operation: &'static str) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Err(Error::Unavailable {
            attempted: operation,
            certainty: Certainty::Unknown,
            source: "killed here".into(),
        })
    }
}

#[async_trait]
impl Layer for Failing {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        if self.after {
            Ok(())
        } else {
            self.fail(operation)
        }
    }

    async fn after(&self, operation: &'static str, _succeeded: bool) -> Result<()> {
        if self.after {
            self.fail(operation)
        } else {
            Ok(())
        }
    }
}

#[tokio::test]
async fn a_pass_that_is_killed_at_any_step_is_finished_by_the_next() {
    let mut finished = 0;
    for after in [false, true] {
        for operations in 0..40 {
            let stage = Stage::new(true).await;
            let ids = stage.deliver(5).await;
            let failing = LayeredStore(Failing {
                inner: Arc::new(stage.store.clone()),
                left: AtomicI64::new(operations),
                after,
            });
            let first = stage.maintenance_of(Arc::new(failing), Some(stage.archive()));
            let first = first.pass().await;
            finished += i32::from(first.is_ok());
            let (stored, archived) = (stage.stored().await, stage.archived());
            for id in &ids {
                assert!(
                    stored.contains(id) || archived.contains(id),
                    "{id} is lost after {operations} operations"
                );
            }
            stage.let_the_lease_end();
            let second = stage
                .maintenance(Some(stage.archive()))
                .pass()
                .await
                .unwrap();
            assert_eq!(second.end, End::Done, "after {operations} operations");
            assert_eq!(stage.stored().await.len(), 1);
            assert_eq!(stage.archived(), ids.into_iter().collect());
            assert_eq!(stage.store.doctor().await.unwrap(), []);
        }
    }
    assert!(finished > 0, "40 operations are enough for a pass");
}

/// A store that notes its operations, and has more to let leave after each of some departures.
struct Refilled {
    inner: Arc<dyn Store>,
    left: AtomicI64,
    operations: Mutex<Vec<&'static str>>,
}

#[async_trait]
impl Layer for Refilled {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        self.operations.lock().unwrap().push(operation);
        Ok(())
    }

    async fn after(&self, operation: &'static str, _succeeded: bool) -> Result<()> {
        if operation == "depart" && self.left.fetch_sub(1, Ordering::Relaxed) > 0 {
            deliver_in(&*self.inner, &[NewMessage::new(queue(), json!(1))]).await;
        }
        Ok(())
    }
}

/// A backlog takes long, and ids go on meanwhile: ranges are prepared before each departure.
#[tokio::test]
async fn ranges_are_prepared_before_each_departure() {
    let stage = Stage::new(false).await;
    stage.deliver(1).await;
    let refilled = Arc::new(LayeredStore(Refilled {
        inner: Arc::new(stage.store.clone()),
        left: AtomicI64::new(2),
        operations: Mutex::default(),
    }));
    let maintenance = stage.maintenance_of(refilled.clone(), Some(stage.archive()));
    let pass = maintenance.pass().await.unwrap();
    assert_eq!(pass.departures, 3);
    let operations = refilled.0.operations.lock().unwrap().clone();
    let looked = ["prepare_ranges", "due_erasures", "begin_departure"];
    let taken: Vec<_> = operations
        .iter()
        .filter(|taken| looked.contains(taken))
        .collect();
    assert_eq!(
        taken.len(),
        3 * looked.len() + looked.len(),
        "and once in vain"
    );
    for taken in taken.chunks(looked.len()) {
        assert!(
            taken.iter().zip(looked).all(|(taken, due)| **taken == due),
            "{taken:?}"
        );
    }
}

#[tokio::test]
async fn an_archive_that_another_process_writes_is_a_lock() {
    let stage = Stage::new(true).await;
    stage.deliver(5).await;
    let archive = stage.archive();
    let lock = archive.lock().unwrap();
    let maintenance = stage.maintenance(Some(stage.archive()));
    let pass = maintenance.pass().await.unwrap();
    assert_eq!(
        (pass.departed, pass.end),
        (0, End::Refused(Refusal::Locked))
    );
    drop(lock);
    stage.let_the_lease_end();
    assert_eq!(maintenance.pass().await.unwrap().departed, 5);
}

#[tokio::test]
async fn an_archive_that_fails_leaves_everything_in_the_store() {
    let stage = Stage::new(true).await;
    stage.deliver(5).await;
    let archive = stage.archive();
    std::fs::remove_dir_all(archive.folder()).unwrap();
    std::fs::write(archive.folder(), "not a folder").unwrap();
    let failed = stage.maintenance(Some(archive.clone())).pass().await;
    let error = failed.unwrap_err().to_string();
    assert!(
        error.contains("the messages stay in the database"),
        "{error}"
    );
    assert_eq!(stage.stored().await.len(), 6);
    std::fs::remove_file(archive.folder()).unwrap();
    stage.let_the_lease_end();
    let pass = stage
        .maintenance(Some(stage.archive()))
        .pass()
        .await
        .unwrap();
    assert_eq!(pass.departed, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_at_once_one_does_it() {
    let stage = Stage::new(true).await;
    stage.deliver(500).await;
    let passes: Vec<_> = (0..4)
        .map(|_| {
            let maintenance = stage.maintenance(Some(stage.archive()));
            tokio::spawn(async move { maintenance.pass().await })
        })
        .collect();
    let mut departed = 0;
    for pass in passes {
        departed += pass.await.unwrap().unwrap().departed;
    }
    assert_eq!(departed, 500);
    assert_eq!(stage.archived().len(), 500);
}
