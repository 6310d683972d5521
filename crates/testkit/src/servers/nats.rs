use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::{Daemon, START_ATTEMPTS_MAX, free_address, program};

/// A real NATS server with JetStream, killed when this value is dropped.
#[derive(Debug)]
pub struct NatsServer {
    daemon: Daemon,
    address: SocketAddr,
    /// Holds the configuration, the streams and the log; removed with this value.
    directory: TempDir,
}

impl NatsServer {
    /// Starts an empty server.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts an empty server with more lines in its configuration: `max_payload: 1024`.
    pub async fn start_with(configuration: &str) -> Self {
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            let mut server = Self::spawn(free_address(), configuration);
            match server.daemon.accepts(server.address).await {
                Ok(()) => return server,
                Err(output) => log = output,
            }
        }
        panic!("nats-server did not start; its output:\n{log}");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as clients write it.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Kills it (SIGKILL) and returns when it is gone.
    pub fn kill9(&mut self) {
        self.daemon.kill9();
    }

    /// Stops it (SIGTERM) and returns when it has ended.
    pub async fn terminate(&mut self) {
        self.daemon.terminate().await;
    }

    /// Starts it again, after it was ended, on the same port and with the same streams.
    pub async fn start_again(&mut self) {
        self.daemon = run(&self.directory);
        if let Err(log) = self.daemon.accepts(self.address).await {
            panic!("nats-server did not return; its output:\n{log}");
        }
    }

    fn spawn(address: SocketAddr, configuration: &str) -> Self {
        let directory = tempfile::tempdir().expect("create a directory for nats");
        let store = directory.path().join("jetstream");
        let text = format!(
            "listen: \"{address}\"\n\
             jetstream {{ store_dir: {store:?} }}\n\
             {configuration}\n"
        );
        fs::write(directory.path().join("conf"), text).expect("write the configuration of nats");
        Self {
            daemon: run(&directory),
            address,
            directory,
        }
    }
}

fn run(directory: &TempDir) -> Daemon {
    let mut command = Command::new(program("nats-server"));
    command.arg("--config").arg(directory.path().join("conf"));
    Daemon::spawn("nats-server", command, &directory.path().join("log"))
}

/// Three NATS servers that keep their streams together.
///
/// They accept before they have agreed on a leader: the first stream is made with patience.
#[derive(Debug)]
pub struct NatsCluster {
    nodes: Vec<NatsServer>,
}

impl NatsCluster {
    /// Starts a cluster of three empty servers.
    pub async fn start() -> Self {
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            match Self::try_start().await {
                Ok(cluster) => return cluster,
                Err(output) => log = output,
            }
        }
        panic!("the nats cluster did not start; the output of a node:\n{log}");
    }

    async fn try_start() -> Result<Self, String> {
        let routes: Vec<SocketAddr> = (0..3).map(|_| free_address()).collect();
        let known: Vec<String> = routes.iter().map(|it| format!("\"nats://{it}\"")).collect();
        let known = known.join(", ");
        let mut nodes = Vec::new();
        for (number, route) in (1..).zip(&routes) {
            let configuration = format!(
                "server_name: node{number}\n\
                 cluster {{ name: test, listen: \"{route}\", routes: [{known}] }}\n"
            );
            nodes.push(NatsServer::spawn(free_address(), &configuration));
        }
        for node in &mut nodes {
            let address = node.address;
            node.daemon.accepts(address).await?;
        }
        Ok(Self { nodes })
    }

    /// The addresses of all nodes, as clients write them.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(NatsServer::url).collect()
    }

    /// The node of this name: `node1`, `node2` or `node3`.
    pub fn node(&mut self, name: &str) -> &mut NatsServer {
        let number: usize = name
            .strip_prefix("node")
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("there is no node {name}"));
        &mut self.nodes[number - 1]
    }
}
