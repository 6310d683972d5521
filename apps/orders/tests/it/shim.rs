//! The broker of the examples, run by Python, and the real http adapter.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use consign_orders::{BrokerLookup, ExecStatus, Reason, broker};

use crate::http::{options, order, send_as};

/// The program of the page on the broker's contract.
struct Shim {
    child: Child,
    url: String,
}

impl Shim {
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/broker.py");
        let mut child = Command::new("python3")
            .args([script, "0"])
            .env("BROKER_API_KEY", "tulip-and-rose")
            .env("BROKER_API_SECRET", "dev-secret")
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut url = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        Self { child, url }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

#[tokio::test]
async fn the_example_of_a_broker_keeps_the_contract() {
    let shim = Shim::start();
    let (options, order) = (options(&shim.url), order(&[]));
    let first = send_as("desk/é 1", &options, &order, 5_000).await.unwrap();
    assert_eq!(first.status, ExecStatus::Ok);
    assert_eq!(first.executed_qty, order.qty, "exact");
    assert_eq!(first.faults(&order, None), []);
    let again = send_as("desk/é 1", &options, &order, 5_000).await.unwrap();
    assert_eq!(again, first, "a key executes once");
    let other = send_as("desk/2", &options, &order, 5_000).await.unwrap();
    assert_ne!(other.broker.order_ref, first.broker.order_ref);

    let adapter = broker(&options).await.unwrap();
    assert_eq!(
        adapter.status("desk/é 1").await,
        BrokerLookup::Executed(Box::new(first))
    );
    assert_eq!(adapter.status("desk/3").await, BrokerLookup::NotExecuted);

    let mut sell = order.clone();
    sell.side = consign_orders::Side::Sell;
    let refused = send_as("desk/4", &options, &sell, 5_000).await.unwrap_err();
    assert_eq!(refused.reason, Reason::BrokerRejected, "{refused}");
    assert!(!refused.is_uncertain);
    let stranger = consign_orders::OrdersOptions {
        broker_api_secret: Some("another".to_owned().into()),
        ..options
    };
    let refused = send_as("desk/5", &stranger, &order, 5_000)
        .await
        .unwrap_err();
    assert_eq!(refused.reason, Reason::BrokerRejected, "{refused}");
    let asked = broker(&stranger).await.unwrap().status("desk/é 1").await;
    assert!(matches!(asked, BrokerLookup::Unknown(_)), "{asked:?}");
}
