//! Orders, from the HTTP API to the broker and back: real processes, killed for real, on both stores.

mod accept;
pub(crate) mod bench;
mod direct;
mod doubt;
mod kills;
mod leases;
mod lifetime;
mod limits;
mod manual;
mod many;
mod privacy;
mod refuse;
mod retries;
pub(crate) mod sql;
#[cfg(feature = "otlp")]
mod traces;

use std::process::Command;

use consign_testkit::HonestBroker;

/// This very program, as the broker.
fn broker_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "orders::a_broker_process", "--nocapture"]);
    command
}

/// Not a test by itself: what the brokers of the tests run.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_process() {
    HonestBroker::serve_if_told().await;
}
