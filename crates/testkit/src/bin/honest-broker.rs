//! The honest broker as a program: `HONEST_BROKER_LISTEN=127.0.0.1:9999 HONEST_BROKER_JOURNAL=/tmp/broker honest-broker`.

use consign_testkit::HonestBroker;

#[tokio::main]
async fn main() {
    HonestBroker::serve_if_told().await;
    eprintln!("set HONEST_BROKER_LISTEN to an address and HONEST_BROKER_JOURNAL to a file");
    std::process::exit(2);
}
