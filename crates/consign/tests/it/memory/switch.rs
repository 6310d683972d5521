//! Commands that stop and start a memory server of a test.

use std::{path::PathBuf, process::Command};

use consign_testkit::{OpenMemory, eventually};

use crate::{
    orders::bench::Bench,
    support::{CommandOutput, finish},
};

/// A server that ends and comes back when a command says so.
pub(crate) struct Switch {
    folder: PathBuf,
}

impl Switch {
    pub(crate) fn new(bench: &Bench) -> Self {
        let folder = bench.consign.folder().join("switch");
        std::fs::create_dir(&folder).unwrap();
        Self { folder }
    }

    pub(crate) fn stop(&self) -> String {
        self.asks("stop")
    }

    pub(crate) fn start(&self) -> String {
        self.asks("start")
    }

    /// Asks for something and waits until it is done.
    fn asks(&self, what: &str) -> String {
        let at = self.folder.join(what);
        let at = at.display();
        format!("touch {at} && while [ -e {at} ]; do sleep 0.05; done")
    }

    /// Runs a program that stops the server once and starts it again.
    pub(crate) async fn run(&self, command: Command, server: &mut OpenMemory) -> CommandOutput {
        let running = tokio::task::spawn_blocking(move || finish(command, b""));
        self.is_asked("stop", &running).await;
        server.stop().await;
        self.is_done("stop");
        self.is_asked("start", &running).await;
        server.restart().await;
        self.is_done("start");
        running.await.unwrap()
    }

    async fn is_asked<T>(&self, what: &str, running: &tokio::task::JoinHandle<T>) {
        let at = self.folder.join(what);
        eventually(what, crate::service::SOON, async || {
            at.exists() || running.is_finished()
        })
        .await;
    }

    fn is_done(&self, what: &str) {
        let at = self.folder.join(what);
        if at.exists() {
            std::fs::remove_file(at).unwrap();
        }
    }
}
