//! Notification wakes whoever dispatches; polling is the safety net.

use consign_testkit::eventually;
use sqlx::postgres::PgListener;

use super::desk::{becomes, pay, payment};
use crate::{
    http,
    orders::bench::{Kind, on_both},
    service::{SOON, Service},
};

/// P-14: a new payment notifies with an empty payload, a repeat does not; and a worker that nobody
/// can wake dispatches all the same.
#[test]
fn p_14_a_payment_wakes_and_polling_is_the_safety_net() {
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
            assert!(more.is_none(), "a repeat notifies nobody");
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
