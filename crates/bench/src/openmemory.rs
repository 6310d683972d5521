//! Memory servers: a real OpenMemory, and one that takes everything and answers nothing.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    task::JoinSet,
    time::{Instant, interval},
};

use crate::http::receive;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// The server listens on every interface and has no setting for it.
const LOOPBACK: &str = "
const net = require('net');
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (first, ...rest) {
    if (typeof first !== 'number' || typeof rest[0] === 'string') return listen.call(this, first, ...rest);
    const ready = rest.filter((it) => typeof it === 'function');
    return listen.call(this, { port: first, host: '127.0.0.1' }, ...ready);
};
";

/// A real OpenMemory with an empty store; dropping it kills it.
#[derive(Debug)]
pub(crate) struct OpenMemory {
    address: SocketAddr,
    _child: Child,
    /// Its data and its log.
    _directory: TempDir,
}

impl OpenMemory {
    pub(crate) const KEY: &str = "bench";

    /// Starts the one that npm has installed in a folder.
    pub(crate) async fn start(installed: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("loopback.cjs"), LOOPBACK)?;
        let main = "node_modules/openmemory-backend/dist/server/index.js";
        let main = std::path::absolute(installed.join(main))?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = free.local_addr()?;
        drop(free);
        let child = Command::new("node")
            .arg("--require")
            .arg(at("loopback.cjs"))
            .arg(main)
            .current_dir(&directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", directory.path())
            .env("OM_PORT", address.port().to_string())
            .env("OM_API_KEY", Self::KEY)
            .env("OM_TIER", "fast")
            .env("OM_EMBEDDINGS", "synthetic")
            .env("OM_METADATA_BACKEND", "sqlite")
            .env("OM_VECTOR_BACKEND", "sqlite")
            .env("OM_DB_PATH", at("data/om.sqlite"))
            .env("OM_USE_SUMMARY_ONLY", "false")
            .env("OM_TELEMETRY", "false")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(at("log"))?)
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("start node")?;
        let started = Instant::now();
        let mut looks = interval(Duration::from_millis(50));
        while TcpStream::connect(address).await.is_err() {
            if started.elapsed() > PATIENCE {
                let said = std::fs::read_to_string(at("log")).unwrap_or_default();
                bail!("OpenMemory did not start: {said}");
            }
            looks.tick().await;
        }
        Ok(Self {
            address,
            _child: child,
            _directory: directory,
        })
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

/// A server that answers health checks and hangs on everything else.
#[derive(Debug)]
pub(crate) struct HangingServer {
    address: SocketAddr,
    _listening: JoinSet<()>,
}

impl HangingServer {
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                // A client that times out leaves a broken connection behind.
                connections.spawn(async move { drop(answer(stream).await) });
            }
        });
        Ok(Self {
            address,
            _listening: listening,
        })
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

async fn answer(stream: TcpStream) -> Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = receive(&mut stream).await? {
        if !request.first_line.starts_with("GET /health ") {
            return std::future::pending().await;
        }
        let body = "{\"ok\":true}";
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.get_mut().write_all(answer.as_bytes()).await?;
    }
    Ok(())
}
