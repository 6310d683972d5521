use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use tempfile::TempDir;

use crate::daemon::{Daemon, START_ATTEMPTS_MAX, free_address, program};

/// The server listens on every interface and has no setting for it.
const LOOPBACK: &str = "
const { Server } = require('net');
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
    if (typeof port !== 'number' || typeof rest[0] === 'string') return listen.call(this, port, ...rest);
    return listen.call(this, { port, host: '127.0.0.1' }, ...rest.filter((it) => typeof it === 'function'));
};
";

/// A real OpenMemory with a store of its own, killed when this value is dropped.
#[derive(Debug)]
pub struct OpenMemory {
    daemon: Daemon,
    address: SocketAddr,
    settings: Vec<(String, String)>,
    /// Holds the data and the log; removed with this value.
    directory: TempDir,
}

impl OpenMemory {
    /// Its API key.
    pub const KEY: &str = "om-test-key";

    /// Starts an empty server that keeps texts as they are.
    pub async fn start() -> Self {
        Self::start_with(&[("OM_USE_SUMMARY_ONLY", "false")]).await
    }

    /// Starts an empty server with these variables in its environment beside the necessary ones.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        let settings = owned(settings);
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            let directory = tempfile::tempdir().expect("create a directory for openmemory");
            fs::write(directory.path().join("loopback.cjs"), LOOPBACK).expect("write the preload");
            let address = free_address();
            let daemon = spawn(&directory, address, &settings);
            let mut server = Self {
                daemon,
                address,
                settings: settings.clone(),
                directory,
            };
            match server.daemon.accepts(address).await {
                Ok(()) => return server,
                Err(output) => log = output,
            }
        }
        panic!("openmemory did not start; its output:\n{log}");
    }

    /// Where it is, such as `http://127.0.0.1:20000`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.daemon.id()
    }

    /// Stops it and waits until it has ended.
    pub async fn stop(&mut self) {
        self.daemon.terminate().await;
    }

    /// Kills it.
    pub fn kill9(&mut self) {
        self.daemon.kill9();
    }

    /// Stops it where it is: it accepts connections and never answers.
    pub fn freeze(&self) {
        self.daemon.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.daemon.signal("CONT");
    }

    /// Starts it again with other variables in its environment: same port, same memories.
    pub async fn restart_with(&mut self, settings: &[(&str, &str)]) {
        self.settings = owned(settings);
        self.restart().await;
    }

    /// Starts it again after it was stopped or killed: same port, same memories.
    pub async fn restart(&mut self) {
        self.daemon = spawn(&self.directory, self.address, &self.settings);
        let started = self.daemon.accepts(self.address).await;
        started.unwrap_or_else(|log| panic!("openmemory did not start again; its output:\n{log}"));
    }
}

fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    settings.iter().map(owned).collect()
}

fn spawn(directory: &TempDir, address: SocketAddr, settings: &[(String, String)]) -> Daemon {
    let installed = env::var_os("CONSIGN_TEST_OPENMEMORY")
        .expect("CONSIGN_TEST_OPENMEMORY: run scripts/test --all, which installs openmemory");
    let main =
        PathBuf::from(installed).join("node_modules/openmemory-backend/dist/server/index.js");
    let at = |name: &str| directory.path().join(name);
    let mut command = Command::new(program("node"));
    command
        .arg("--require")
        .arg(at("loopback.cjs"))
        .arg(main)
        .current_dir(directory.path())
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("HOME", directory.path())
        .env("OM_PORT", address.port().to_string())
        .env("OM_API_KEY", OpenMemory::KEY)
        .env("OM_TIER", "fast")
        .env("OM_EMBEDDINGS", "synthetic")
        .env("OM_METADATA_BACKEND", "sqlite")
        .env("OM_VECTOR_BACKEND", "sqlite")
        .env("OM_DB_PATH", at("data/om.sqlite"))
        .env("OM_TELEMETRY", "false")
        .envs(settings.iter().cloned());
    Daemon::spawn("openmemory", command, &at("log"))
}
