//! `consign serve` and `consign work` as child processes.

use std::{fs::File, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use consign_testkit::{Child, eventually};

use crate::{http, support::Consign};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A process that stays, its log in a file.
pub(crate) struct Service {
    pub(crate) child: Child,
    log: PathBuf,
    /// Where it listens, once its banner has it.
    address: Option<SocketAddr>,
}

impl Service {
    /// `serve` on the test's database, up and running.
    pub(crate) async fn serve(consign: &Consign) -> Self {
        Self::start(consign, &["serve", "--listen", "127.0.0.1:0"], |_| {}).await
    }

    /// `work` with its health at a port of its own, up and running.
    pub(crate) async fn work(consign: &Consign, more: &[&str]) -> Self {
        let mut arguments = vec!["work", "--health-listen", "127.0.0.1:0"];
        arguments.extend(more);
        Self::start(consign, &arguments, |_| {}).await
    }

    pub(crate) async fn start(
        consign: &Consign,
        arguments: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let mut service = Self::launch(consign, arguments, change);
        let line = service.child.expect_line("listening  ").await;
        let address = line.rsplit('/').next().unwrap().parse().unwrap();
        service.address = Some(address);
        eventually("the service is ready", SOON, async || {
            http::try_get(address, "/readyz")
                .await
                .is_ok_and(|answer| answer.status == 200)
        })
        .await;
        service
    }

    /// Started, and not waited for.
    pub(crate) fn launch(
        consign: &Consign,
        arguments: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Self {
        let count = std::fs::read_dir(consign.folder()).unwrap().count();
        let log = consign.folder().join(format!("log-{count}"));
        let mut command = consign.command();
        command
            .arg("--database")
            .arg(consign.database())
            .args(arguments);
        change(&mut command);
        command.stderr(File::create(&log).unwrap());
        Self {
            child: Child::start(command),
            log,
            address: None,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("the banner has the address")
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log contains `text`.
    pub(crate) async fn logs(&self, text: &str) {
        eventually(text, SOON, async || self.log().contains(text)).await;
    }

    /// Signals it.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for its end and answers with the exit code.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> impl Future<Output = i32> {
        let log = self.log.clone();
        let ending = self.child.wait(SOON);
        async move {
            let status = ending.await;
            status
                .code()
                .unwrap_or_else(|| panic!("{status}: {}", std::fs::read_to_string(log).unwrap()))
        }
    }

    /// Stops it and expects an orderly end.
    pub(crate) async fn stop(mut self) {
        self.signal("TERM");
        let code = self.ends().await;
        assert_eq!(code, 0, "{}", self.log());
    }
}

/// Sends a signal through the shell.
pub(crate) fn signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(status.success(), "{kill}: {status}");
}

/// How many messages of the queue are not delivered.
pub(crate) fn unfinished(consign: &Consign, queue: &str) -> u64 {
    let shown = consign.json(["queues", "show", queue]);
    let counts = shown["counts"].as_object().unwrap();
    let states = counts.iter().filter(|(name, _)| *name != "dead");
    states.filter_map(|(_, count)| count.as_u64()).sum()
}

/// Enqueues `count` messages into the queue.
pub(crate) fn fill(consign: &Consign, queue: &str, count: usize) {
    let lines: String = (0..count)
        .map(|n| format!("{{\"payload\": {n}}}\n"))
        .collect();
    consign
        .run_with(["enqueue", "--queue", queue], lines.as_bytes())
        .expect(0);
}
