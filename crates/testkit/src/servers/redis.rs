use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::{Daemon, START_ATTEMPTS_MAX, free_address, program};

/// A real Redis that writes everything down before it answers, killed when this value is dropped.
#[derive(Debug)]
pub struct RedisServer {
    daemon: Daemon,
    address: SocketAddr,
    port_option: &'static str,
    options: Vec<String>,
    /// Holds the data and the log; removed with this value.
    directory: TempDir,
}

impl RedisServer {
    /// Starts an empty server.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts an empty server with more options, as on its command line: `["--requirepass", "x"]`.
    pub async fn start_with(options: &[&str]) -> Self {
        Self::start_as(options, "--port").await
    }

    async fn start_as(options: &[&str], port_option: &'static str) -> Self {
        let options: Vec<String> = options.iter().map(|&it| it.to_owned()).collect();
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            let directory = tempfile::tempdir().expect("create a directory for redis");
            let address = free_address();
            let daemon = spawn(&directory, address, port_option, &options);
            let mut server = Self {
                daemon,
                address,
                port_option,
                options: options.clone(),
                directory,
            };
            match server.daemon.accepts(address).await {
                Ok(()) => return server,
                Err(output) => log = output,
            }
        }
        panic!("redis-server did not start; its output:\n{log}");
    }

    /// The same, listening with TLS only; the options name the certificates.
    pub async fn start_tls(options: &[&str]) -> Self {
        Self::start_as(options, "--tls-port").await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Kills it (SIGKILL) and returns when it is gone.
    pub fn kill9(&mut self) {
        self.daemon.kill9();
    }

    /// Starts it again, after it was ended, on the same port and with the same data.
    pub async fn start_again(&mut self) {
        self.daemon = spawn(
            &self.directory,
            self.address,
            self.port_option,
            &self.options,
        );
        if let Err(log) = self.daemon.accepts(self.address).await {
            panic!("redis-server did not return; its output:\n{log}");
        }
    }
}

fn spawn(
    directory: &TempDir,
    address: SocketAddr,
    port_option: &str,
    options: &[String],
) -> Daemon {
    let mut command = Command::new(program("redis-server"));
    command
        .args(["--bind", &address.ip().to_string()])
        // Without a port of its own it would listen on the usual one.
        .args(["--port", "0"])
        .args([port_option, &address.port().to_string()])
        .arg("--dir")
        .arg(directory.path())
        .args(["--appendonly", "yes", "--save", ""])
        .args(options);
    Daemon::spawn("redis-server", command, &directory.path().join("log"))
}
