//! The honest broker as a program: `HONEST_BROKER_LISTEN=127.0.0.1:9999 HONEST_BROKER_JOURNAL=/tmp/broker honest-broker`.

use consign_testkit::HonestBroker;

#[tokio::main]
async fn main() {
    HonestBroker::serve_if_told().await;
    eprintln!("HONEST_BROKER_LISTEN says where to listen, HONEST_BROKER_JOURNAL where to remember");
    std::process::exit(2);
}
