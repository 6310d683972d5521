//! A scripted broker of orders, and rail of payments, that records what it did.

mod journal;
mod order;
mod payment;
mod process;
mod step;
mod submission;
mod wire;

use std::{net::SocketAddr, path::PathBuf, process::Command, sync::Mutex, time::Duration};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    daemon::{Daemon, START_ATTEMPTS_MAX, free_address},
    wait::eventually,
};

pub use journal::{BrokerEvent, BrokerJournal, Tally};
pub use step::{BrokerManner, Step};

const PATIENCE: Duration = Duration::from_secs(30);

/// A broker in a process of its own, killed when this value is dropped.
///
/// It takes orders by `POST`, with their key in the header `Idempotency-Key`, and reports what became
/// of one by `GET .../KEY`. It writes down every send and every execution before it answers, so a
/// killed broker that is started again has forgotten nothing. What it does about an order is set by
/// the order's tags ([`Step`]), about all of them by [`tell`](Self::tell).
///
/// It is a rail as well: payments are posted to [`payments_url`](Self::payments_url), their steps in
/// `payload.steps`.
#[derive(Debug)]
pub struct HonestBroker {
    daemon: Daemon,
    address: SocketAddr,
    command: fn() -> Command,
    manner: Mutex<BrokerManner>,
    /// Holds the journal and the log; removed with this value.
    directory: TempDir,
}

impl HonestBroker {
    /// Serves orders until it is killed, if this process was started as the broker; otherwise does
    /// nothing.
    pub async fn serve_if_told() {
        process::serve_if_told().await;
    }

    /// Starts a broker that has seen nothing yet. The command must lead to
    /// [`serve_if_told`](Self::serve_if_told).
    pub async fn start(command: fn() -> Command) -> Self {
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            let directory = tempfile::tempdir().expect("create a directory for the broker");
            let address = free_address();
            let mut broker = Self {
                daemon: spawn(&directory, address, command),
                address,
                command,
                manner: Mutex::default(),
                directory,
            };
            match broker.daemon.accepts(address).await {
                Ok(()) => return broker,
                Err(output) => log = output,
            }
        }
        panic!("the broker did not start; its output:\n{log}");
    }

    /// Where orders are sent.
    pub fn url(&self) -> String {
        format!("http://{}/orders", self.address)
    }

    /// The URL for payments; their status is below it.
    pub fn payments_url(&self) -> String {
        format!("http://{}{}", self.address, submission::PAYMENTS)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it (SIGKILL) and returns when it is gone.
    pub fn kill9(&mut self) {
        self.daemon.kill9();
    }

    /// Starts it again, after it was killed, on the same port and with the same journal.
    pub async fn start_again(&mut self) {
        self.daemon = spawn(&self.directory, self.address, self.command);
        if let Err(log) = self.daemon.accepts(self.address).await {
            panic!("the broker did not return; its output:\n{log}");
        }
    }

    /// Changes how it treats all orders.
    pub async fn tell(&self, change: impl FnOnce(&mut BrokerManner)) {
        let body = {
            let mut manner = self
                .manner
                .lock()
                .expect("invariant: no panic under this lock");
            change(&mut manner);
            serde_json::to_string(&*manner).expect("a manner is JSON")
        };
        let request = format!(
            "PUT {} HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
            process::CONTROL,
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).await.expect("connect");
        let mut answer = [0; 12];
        stream
            .write_all(request.as_bytes())
            .await
            .expect("set its behaviour");
        stream.read_exact(&mut answer).await.expect("be answered");
        assert_eq!(
            &answer, b"HTTP/1.1 200",
            "the broker rejected its behaviour"
        );
    }

    /// What has happened so far.
    pub fn journal(&self) -> BrokerJournal {
        BrokerJournal::read(&self.path())
    }

    /// How many orders have come in; cheaper than the journal.
    pub fn send_count(&self) -> usize {
        BrokerJournal::count(&self.path(), journal::SENT)
    }

    /// How many executions there were; cheaper than the journal.
    pub fn execution_count(&self) -> usize {
        BrokerJournal::count(&self.path(), journal::EXECUTED)
    }

    /// Returns once orders have come in so many times, whatever their keys.
    pub async fn was_sent(&self, count: usize) {
        let what = format!("the broker is sent {count} orders");
        eventually(&what, PATIENCE, async || self.send_count() >= count).await;
    }

    /// Returns once a key was executed.
    pub async fn has_executed(&self, key: &str) {
        let what = format!("the broker executes {key}");
        eventually(&what, PATIENCE, async || {
            self.journal().tally(key).executions > 0
        })
        .await;
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("journal")
    }
}

fn spawn(directory: &TempDir, address: SocketAddr, command: fn() -> Command) -> Daemon {
    let mut command = command();
    command
        .env(process::LISTEN, address.to_string())
        .env(process::JOURNAL, directory.path().join("journal"));
    Daemon::spawn("the broker", command, &directory.path().join("log"))
}
