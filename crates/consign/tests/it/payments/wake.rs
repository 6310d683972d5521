//! A notification wakes the worker; polling is the safety net.

use std::cell::Cell;

use consign_testkit::eventually;
use sqlx::postgres::PgListener;

use super::fixture::{becomes, pay, payment};
use crate::{
    http,
    orders::bench::{Bench, Kind, on_both},
    service::{SOON, Service},
};

/// A new payment notifies with an empty payload, a repeat does not; and a worker that nobody
/// can wake dispatches all the same.
#[test]
fn a_payment_notifies_and_polling_covers_lost_notifications() {
    on_both(async |mut bench| {
        bench.configure("[database]\npooler = \"transaction\"\n[payments]\nrail = \"simulated\"\n");
        let service = Service::serve(&bench.consign).await;
        let mut listener = match bench.kind {
            Kind::Sqlite => None,
            Kind::Postgres => {
                let mut listener = PgListener::connect(bench.direct()).await.unwrap();
                listener.listen("symphony_outbox").await.unwrap();
                Some(listener)
            }
        };
        let first = pay(&service, 1, &[]).await;
        let body = payment(1, &[]).to_string();
        let again = http::post(service.address(), "/v1/payments", &body).await;
        assert_eq!(again.status, 202, "{again:?}");
        let second = pay(&service, 2, &[]).await;
        if let Some(listener) = &mut listener {
            for _ in 0..2 {
                let told = tokio::time::timeout(SOON, listener.recv()).await;
                assert_eq!(told.unwrap().unwrap().payload(), "");
            }
            // The repeat lies before the second payment: its notification would have come by now.
            let more = listener.next_buffered();
            assert!(more.is_none(), "a repeat does not notify");
        }
        for id in [&first, &second] {
            becomes(&bench, id, "DISPATCHED").await;
        }
        let log = || service.log();
        eventually("nothing is left", SOON, async || {
            let status = bench.consign.json(["payments", "status"]);
            assert!(!log().contains("panicked"), "{}", log());
            status["status"]["pending"] == 0
        })
        .await;
        service.stop().await;
        bench.doctor();
    });
}

/// Ends whatever connections wait for notifications, and tells how many there were.
async fn cut_listeners(bench: &Bench) -> i64 {
    let cut = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid() \
               AND query ILIKE 'listen %') cut";
    bench.eye().await.number(cut).await
}

/// The connection that waits for notifications is cut in mid-run, and again whenever it comes
/// back; polling dispatches all the same.
#[test]
fn with_the_listener_cut_polling_still_dispatches() {
    on_both(async |mut bench| {
        bench.configure("[payments]\nrail = \"simulated\"\n");
        let service = Service::serve(&bench.consign).await;
        let first = pay(&service, 1, &[]).await;
        becomes(&bench, &first, "DISPATCHED").await;
        let cuts = Cell::new(0);
        let cutting = async {
            // SQLite has nobody to cut: a look at the file is all there is.
            if bench.kind == Kind::Postgres {
                loop {
                    cuts.set(cuts.get() + cut_listeners(&bench).await);
                    tokio::task::yield_now().await;
                }
            }
            std::future::pending::<()>().await
        };
        let paying = async {
            eventually("a connection listened", SOON, async || {
                bench.kind == Kind::Sqlite || cuts.get() > 0
            })
            .await;
            for number in 2..=6 {
                let id = pay(&service, number, &[]).await;
                becomes(&bench, &id, "DISPATCHED").await;
            }
        };
        tokio::select! {
            () = cutting => {}
            () = paying => {}
        }
        // It listens again once it may, and is woken.
        let last = pay(&service, 7, &[]).await;
        becomes(&bench, &last, "DISPATCHED").await;
        service.stop().await;
        bench.doctor();
    });
}
