//! A database that falls silent: a request to the gateway takes its budget and no more, and what it
//! answers is true.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use consign_memory::{
    AuditFilter, AuditStatus, Backend, BackendError, Caller, EmbeddedBackend, ItemPage, Listing,
    Logbook, MemoryItem, MemoryOptions, MemoryService, NewMemory, Search, StoreAnswer,
    StoreRequest, StoredMemory,
};
use consign_postgres::PostgresStore;
use consign_testkit::{ChaosProxy, TestDatabase, eventually};

use crate::harness::{connect, database, options};

const BUDGET: Duration = Duration::from_millis(1_500);
/// What a busy machine may add to it.
const SLACK: Duration = Duration::from_millis(1_000);
/// Generous: a busy machine must not fail a test.
const SOON: Duration = Duration::from_secs(30);

/// A memory server that makes the database fall silent before it answers.
#[derive(Debug)]
struct Silencer {
    proxy: Arc<ChaosProxy>,
    stores: AtomicU32,
    /// From which call on.
    silent_from: u32,
    is_up: bool,
}

impl Silencer {
    fn new(proxy: &Arc<ChaosProxy>, silent_from: u32, is_up: bool) -> Arc<Self> {
        Arc::new(Self {
            proxy: Arc::clone(proxy),
            stores: AtomicU32::new(0),
            silent_from,
            is_up,
        })
    }
}

#[async_trait]
impl Backend for Silencer {
    fn kind(&self) -> &'static str {
        "silencer"
    }
    fn destination(&self) -> &str {
        "here"
    }
    async fn store(&self, _: &NewMemory, _: Duration) -> Result<StoredMemory, BackendError> {
        let nth = self.stores.fetch_add(1, SeqCst) + 1;
        if nth >= self.silent_from {
            self.proxy.swallow_requests();
        }
        if self.is_up {
            Ok(StoredMemory {
                memory_id: format!("m{nth}"),
            })
        } else {
            Err(BackendError::Unreachable("nobody is there".to_owned()))
        }
    }
    async fn find(&self, _: &NewMemory, _: Duration) -> Result<Option<StoredMemory>, BackendError> {
        Ok(None)
    }
    async fn search(&self, _: &Search, _: Duration) -> Result<Vec<MemoryItem>, BackendError> {
        Ok(Vec::new())
    }
    async fn supersede(&self, _: &str, _: &str, _: Duration) -> Result<(), BackendError> {
        Ok(())
    }
    async fn delete(&self, _: &str, _: Duration) -> Result<bool, BackendError> {
        Ok(false)
    }
    async fn read(&self, _: &str, _: Duration) -> Result<Option<MemoryItem>, BackendError> {
        Ok(None)
    }
    async fn list(&self, _: &Listing, _: Duration) -> Result<ItemPage, BackendError> {
        Ok(ItemPage::default())
    }
    async fn check(&self, _: Duration) -> Result<Vec<String>, BackendError> {
        Ok(Vec::new())
    }
}

/// A gateway whose database is behind a proxy.
struct Fixture {
    database: TestDatabase,
    proxy: Arc<ChaosProxy>,
    store: Arc<PostgresStore>,
}

impl Fixture {
    async fn open() -> Self {
        let database = database().await;
        let proxy = Arc::new(ChaosProxy::start(database.address().await).await);
        let options = options(&database.url_via(proxy.address()));
        let store = PostgresStore::connect(&options).await.unwrap();
        Self {
            database,
            proxy,
            store: Arc::new(store),
        }
    }

    fn gateway(&self, backend: Arc<dyn Backend>) -> MemoryService {
        let options = MemoryOptions {
            gateway_budget_ms: BUDGET.as_millis() as u64,
            ..MemoryOptions::default()
        };
        MemoryService::new(self.store.clone(), backend, options)
    }

    /// The statuses of all audits, looked at directly.
    async fn statuses(&self) -> Vec<AuditStatus> {
        let direct = connect(&self.database).await;
        let audits = direct.audits(&AuditFilter::default(), 100).await.unwrap();
        audits.iter().map(|audit| audit.status).collect()
    }
}

async fn remember(service: &MemoryService, text: &str) -> StoreAnswer {
    let request = StoreRequest {
        payload_md: Some(text.to_owned()),
        target_space: Some("private:alice".to_owned()),
        ..StoreRequest::default()
    };
    let since = Instant::now();
    let answer = service.store(request, &Caller::anonymous()).await;
    let took = since.elapsed();
    assert!(took < BUDGET + SLACK, "{took:?}: {answer:?}");
    answer
}

/// Nothing was sent, on the first request and on later ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_is_reported_within_the_budget() {
    let room = Fixture::open().await;
    let server = Silencer::new(&room.proxy, u32::MAX, true);
    for warm_ups in 0..2 {
        let service = room.gateway(server.clone());
        for n in 0..warm_ups {
            assert!(remember(&service, &format!("warm up {n}")).await.ok);
        }
        let stores = server.stores.load(SeqCst);
        room.proxy.swallow_requests();
        let answer = remember(&service, "text").await;
        let code = ["LOGBOOK_UNAVAILABLE", "AUDIT_WRITE_FAILED"][warm_ups];
        assert_eq!(answer.error_code, Some(code), "{answer:?}");
        assert_eq!(answer.retryable, Some(true));
        assert_eq!(answer.action, "error");
        let message = answer.message.unwrap();
        assert!(message.contains("nothing was stored"), "{message}");
        assert_eq!(
            server.stores.load(SeqCst),
            stores,
            "the server was not called"
        );
        room.proxy.resume();
    }
}

/// The write began without an answer: its audit ends once the database responds.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_began_unheard_has_an_end() {
    let room = Fixture::open().await;
    let server = Silencer::new(&room.proxy, u32::MAX, true);
    let service = room.gateway(server.clone());
    assert!(remember(&service, "warm up").await.ok);
    room.proxy.swallow_replies();
    let answer = remember(&service, "text").await;
    assert_eq!(answer.error_code, Some("AUDIT_WRITE_FAILED"), "{answer:?}");
    assert_eq!(server.stores.load(SeqCst), 1, "the server was not called");
    assert!(room.statuses().await.contains(&AuditStatus::Pending));
    room.proxy.resume();
    eventually("the audit has ended", SOON, || async {
        room.statuses().await == [AuditStatus::Failed, AuditStatus::Success]
    })
    .await;
    service.finished().await;
}

/// It is stored, and the answer reports it; its audit ends when the database responds.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_falls_silent_after_the_write_delays_no_answer() {
    let room = Fixture::open().await;
    let service = room.gateway(Silencer::new(&room.proxy, 1, true));
    let answer = remember(&service, "text").await;
    assert!(answer.ok, "{answer:?}");
    assert_eq!(answer.memory_id.as_deref(), Some("m1"));
    let message = answer.message.unwrap();
    assert!(message.contains(&answer.correlation_id), "{message}");
    assert_eq!(room.statuses().await, [AuditStatus::Pending]);
    room.proxy.resume();
    eventually("the audit has ended", SOON, || async {
        room.statuses().await == [AuditStatus::Success]
    })
    .await;
    service.finished().await;
}

/// The outcome is unknown: the answer reports it, and the memory is stored when the database
/// responds.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_falls_silent_before_the_deferral_may_have_kept_it() {
    let room = Fixture::open().await;
    let service = room.gateway(Silencer::new(&room.proxy, 1, false));
    let answer = remember(&service, "text").await;
    assert_eq!(answer.error_code, Some("OUTBOX_ENQUEUE_FAILED"));
    assert_eq!(answer.retryable, Some(true));
    let message = answer.message.unwrap();
    assert!(message.contains("may or may not be enqueued"), "{message}");
    room.proxy.resume();
    eventually("it is kept", SOON, || async {
        let direct = connect(&room.database).await;
        direct.outbox_rows(None, 10).await.unwrap().len() == 1
            && room.statuses().await == [AuditStatus::Redirected]
    })
    .await;
    service.finished().await;
}

/// The answer was lost, not the memory: a repeat reports it.
#[tokio::test(flavor = "multi_thread")]
async fn a_memory_kept_by_a_silent_database_is_found_again() {
    let room = Fixture::open().await;
    let embedded = EmbeddedBackend::new(room.store.clone());
    let service = room.gateway(Arc::new(embedded));
    assert!(remember(&service, "warm up").await.ok);
    room.proxy.swallow_replies();
    let answer = remember(&service, "text").await;
    assert_eq!(answer.error_code, Some("AUDIT_WRITE_FAILED"), "{answer:?}");
    assert_eq!(answer.retryable, Some(true));
    let message = answer.message.unwrap();
    assert!(message.contains("may be stored"), "{message}");
    room.proxy.resume();
    let again = remember(&service, "text").await;
    assert!(again.ok, "{again:?}");
    let message = again.message.unwrap();
    assert!(message.starts_with("dedup_hit"), "{message}");
    let statuses = room.statuses().await;
    assert_eq!(statuses, [AuditStatus::Success; 3], "one for each");
}
