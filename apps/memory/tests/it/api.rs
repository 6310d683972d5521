//! Memories in a server: routes, the Model Context Protocol, pages.

mod audit;
mod gateway;
mod mcp;
mod pages;

use std::sync::Arc;

use consign_memory::{EmbeddedBackend, Logbook, MemoryHttp, MemoryOptions, MemoryService};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_server::testing;
use consign_testkit::TestDatabase;

/// A server with a gateway of memories, which are kept beside the queue.
type Bench = testing::Bench<Arc<dyn Logbook>>;
type Fixture = testing::DashboardFixture<Arc<dyn Logbook>>;

async fn sqlite() -> Bench {
    let component = consign_memory::store::sqlite_component();
    let (bench, store) = testing::Bench::sqlite_with(vec![component]).await;
    with_memory(bench, store, MemoryOptions::default()).await
}

/// The same on PostgreSQL, with its database.
async fn postgres() -> (TestDatabase, Bench) {
    let database = TestDatabase::create(async |_| {}).await;
    let mut connect = PostgresOptions::new(database.url());
    let component = consign_memory::store::POSTGRES_COMPONENT;
    connect.components.push(component);
    consign_postgres::migrate(&connect).await.unwrap();
    let store = Arc::new(PostgresStore::connect(&connect).await.unwrap());
    let clock = consign_kernel::ManualClock::at(jiff::Timestamp::now());
    let bench = testing::Bench::on(store.clone(), clock, None).await;
    let options = MemoryOptions::default();
    (database, with_memory(bench, store, options).await)
}

/// A server with the app off.
async fn off() -> testing::Bench {
    let bench = testing::Bench::reference().await;
    bench.with_state(|state| state.with_extension(Arc::new(MemoryHttp::off())))
}

async fn with_memory<A>(
    bench: testing::Bench<A>,
    logbook: Arc<dyn Logbook>,
    options: MemoryOptions,
) -> Bench {
    let backend = Arc::new(EmbeddedBackend::new(Arc::clone(&logbook)));
    let service = MemoryService::new(Arc::clone(&logbook), backend, options.clone());
    let http = Arc::new(MemoryHttp::new(Arc::new(service), &options));
    let policy = consign_memory::queue_policy(&options);
    let queue = consign_memory::queue();
    let bench = bench.with_extension(http, &queue, &policy).await;
    bench.with_app(logbook)
}

/// Runs each of these on both databases, whose statements differ.
macro_rules! on_databases {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::api::sqlite().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let (_database, bench) = $crate::api::postgres().await;
                super::$test(bench).await;
            })+
        }
    };
}
use on_databases;
