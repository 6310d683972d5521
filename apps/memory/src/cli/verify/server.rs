//! A memory server that may be stopped.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::Correlation;

/// How long a command that starts or stops a server may take.
const COMMAND_MAX: Duration = Duration::from_secs(120);
/// Time limit of a clean shutdown.
const END_MAX: Duration = Duration::from_secs(10);

/// The server listens on every interface and has no setting for it.
const LOOPBACK: &str = "
const { Server } = require('net');
const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
    if (typeof port !== 'number') return listen.call(this, port, ...rest);
    const ready = rest.filter((it) => typeof it === 'function');
    return listen.call(this, { port, host: '127.0.0.1' }, ...ready);
};
";

/// The memory server.
pub(super) enum Server {
    /// A configured server without commands, or none.
    Fixed,
    /// A configured server with the commands that stop and start it.
    Commands { stop: String, start: String },
    /// A temporary server.
    Own(Box<EphemeralServer>),
}

impl Server {
    pub(super) async fn stop(&mut self) -> Result<(), String> {
        match self {
            Self::Fixed => Err("set --stop-command to stop it".to_owned()),
            Self::Commands { stop, .. } => shell(stop).await,
            Self::Own(own) => own.stop().await,
        }
    }

    pub(super) async fn start(&mut self) -> Result<(), String> {
        match self {
            Self::Fixed => Err("set --start-command to start it".to_owned()),
            Self::Commands { start, .. } => shell(start).await,
            Self::Own(own) => own.start(),
        }
    }
}

/// A temporary server with its own store, removed on drop.
pub(super) struct EphemeralServer {
    main: PathBuf,
    address: SocketAddr,
    pub(super) key: String,
    folder: TempDir,
    child: Option<Child>,
}

impl EphemeralServer {
    /// Starts an empty server from its installed package.
    pub(super) fn launch(installed: &Path) -> Result<Self, String> {
        let main = "node_modules/openmemory-backend/dist/server/index.js";
        let main = fs::canonicalize(installed.join(main))
            .map_err(|error| format!("{}: {error}", installed.join(main).display()))?;
        let prepare = || {
            let folder = tempfile::Builder::new()
                .prefix("consign-verify-")
                .tempdir()?;
            fs::write(folder.path().join("loopback.cjs"), LOOPBACK)?;
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            Ok((folder, free.local_addr()?))
        };
        let (folder, address) = prepare().map_err(|error: std::io::Error| error.to_string())?;
        let mut own = Self {
            main,
            address,
            key: Correlation::new().to_string(),
            folder,
            child: None,
        };
        own.start()?;
        Ok(own)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn start(&mut self) -> Result<(), String> {
        let at = |name: &str| self.folder.path().join(name);
        let mut command = Command::new("node");
        command
            .arg("--require")
            .arg(at("loopback.cjs"))
            .arg(&self.main)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("OM_PORT", self.address.port().to_string())
            .env("OM_API_KEY", &self.key)
            .env("OM_TIER", "fast")
            .env("OM_EMBEDDINGS", "synthetic")
            .env("OM_METADATA_BACKEND", "sqlite")
            .env("OM_VECTOR_BACKEND", "sqlite")
            .env("OM_DB_PATH", at("data/om.sqlite"))
            .env("OM_USE_SUMMARY_ONLY", "false")
            .env("OM_TELEMETRY", "false")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let child = command.spawn().map_err(|error| format!("node: {error}"))?;
        self.child = Some(child);
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), String> {
        let Some(child) = self.child.take() else {
            return Ok(());
        };
        end(child).await.map(drop)
    }
}

/// Terminates a process, and kills it after the time limit.
pub(super) async fn end(mut child: Child) -> Result<ExitStatus, String> {
    if let Some(id) = child.id() {
        shell(&format!("kill -TERM {id}")).await?;
    }
    let ended = match timeout(END_MAX, child.wait()).await {
        Ok(ended) => ended,
        Err(_) => {
            let killed = child.kill().await;
            killed.map_err(|error| error.to_string())?;
            child.wait().await
        }
    };
    ended.map_err(|error| error.to_string())
}

/// Runs an operator's command.
async fn shell(command: &str) -> Result<(), String> {
    let mut child = Command::new("sh");
    // Its output must not mix with the steps.
    let child = child
        .args(["-c", command])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match timeout(COMMAND_MAX, child).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{command}: {}: {}", output.status, errors.trim()))
        }
        Ok(Err(error)) => Err(format!("{command}: {error}")),
        Err(_) => Err(format!("{command}: not done within {COMMAND_MAX:?}")),
    }
}
