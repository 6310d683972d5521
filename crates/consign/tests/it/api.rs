//! The API with every app: what apps add to one server fits together and is documented.

mod access;
mod commands;
mod docs;
mod document;
mod foreign;
mod starting;

use std::sync::Arc;

use consign_memory::{EmbeddedBackend, Logbook, MemoryHttp, MemoryOptions, MemoryService};
use consign_orders::{OrderService, OrdersHttp, OrdersOptions};
use consign_payments::{PaymentService, PaymentsHttp, PaymentsOptions};
use consign_server::{Extension, testing::Bench};

/// Every app, none of them on.
fn extensions() -> Vec<Arc<dyn Extension>> {
    vec![
        Arc::new(OrdersHttp::off()),
        Arc::new(PaymentsHttp::off()),
        Arc::new(MemoryHttp::off()),
    ]
}

/// A server on the reference store with every app off.
async fn off() -> Bench {
    let bench = Bench::reference().await;
    let add = |bench: Bench, app| bench.with_state(|state| state.with_extension(app));
    extensions().into_iter().fold(bench, add)
}

/// A server on SQLite with every app.
async fn sqlite() -> Bench {
    let (bench, store) = Bench::sqlite_with(vec![
        consign_orders::store::sqlite_component(),
        consign_memory::store::sqlite_component(),
        consign_payments::store::sqlite_component(),
        consign_scm_app::sqlite_component(),
    ])
    .await;
    let options = OrdersOptions::default();
    let broker = consign_orders::broker(&options).await.unwrap();
    let service = OrderService::new(store.clone(), broker, &options);
    let http = OrdersHttp::new(Arc::new(service), options.wait_max());
    let queue = consign_orders::QUEUE.parse().unwrap();
    let policy = consign_orders::queue_policy(&options);
    let bench = bench.with_extension(Arc::new(http), &queue, &policy).await;
    let options = PaymentsOptions::default();
    let policy = consign_payments::queue_policy(&options);
    let service = PaymentService::new(store.clone(), options);
    let http = Arc::new(PaymentsHttp::new(service, store.clone()));
    let queue = consign_payments::queue();
    let bench = bench.with_extension(http, &queue, &policy).await;
    let options = MemoryOptions::default();
    let logbook = store as Arc<dyn Logbook>;
    let backend = Arc::new(EmbeddedBackend::new(Arc::clone(&logbook)));
    let service = MemoryService::new(logbook, backend, options.clone());
    let http = Arc::new(MemoryHttp::new(Arc::new(service), &options));
    let policy = consign_memory::queue_policy(&options);
    let queue = consign_memory::queue();
    bench.with_extension(http, &queue, &policy).await
}

/// Runs each test with every app off, and on SQLite with every app on.
macro_rules! on_stores {
    ($($test:ident),+ $(,)?) => {
        mod off {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::api::off().await).await;
            })+
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::api::sqlite().await).await;
            })+
        }
    };
}
use on_stores;
