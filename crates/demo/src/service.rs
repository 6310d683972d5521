//! The program `consign` and the service it runs.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    signal::unix::{SignalKind, signal},
};

/// Variables that the service gets; every other one could change a setting.
const VARIABLES: [&str; 2] = ["PATH", "TMPDIR"];

/// A database that another program or another run uses.
#[derive(Debug)]
pub(crate) struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(database) = self;
        write!(
            f,
            "{database} is in use already; the demo fills a database of its own: leave out --database, \
             or name one that is empty"
        )
    }
}

impl std::error::Error for Refusal {}

/// The program `consign`.
#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn find(named: Option<PathBuf>) -> Result<Self> {
        let path = match named {
            Some(path) => path,
            None => std::env::current_exe()?.with_file_name("consign"),
        };
        ensure!(
            path.is_file(),
            "there is no program {}: build it with `cargo build --package consign`, or name it with \
             --program PATH",
            path.display()
        );
        Ok(Self(path))
    }

    fn command(&self, database: &str) -> Command {
        let mut command = Command::new(&self.0);
        command
            .env_clear()
            .args(["--json", "--database", database])
            .stdin(Stdio::null());
        for name in VARIABLES {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command
    }

    /// Rejects a database that is not empty, without changing it. One without a single message may
    /// be in use as well: for memories, for policies of queues, for repositories.
    pub(crate) async fn check_unused(&self, database: &str) -> Result<()> {
        let mut command = self.command(database);
        let output = command.args(["migrate", "status"]).output().await?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let status: Value = serde_json::from_slice(&output.stdout)?;
        let versions = status["versions"].as_object();
        let mut versions = versions.into_iter().flat_map(|versions| versions.values());
        let is_migrated = versions.any(|version| version.as_i64() > Some(0));
        let file = database.strip_prefix("sqlite:").map(Path::new);
        let has_bytes = |file: &Path| file.metadata().is_ok_and(|file| file.len() > 0);
        if is_migrated || file.is_some_and(has_bytes) {
            return Err(Refusal(database.to_owned()).into());
        }
        Ok(())
    }

    /// Starts `consign serve` and returns once it listens.
    pub(crate) async fn serve(
        &self,
        config: &Path,
        database: &str,
        listen: SocketAddr,
    ) -> Result<Service> {
        let listen = listen.to_string();
        let mut command = self.command(database);
        command
            .arg("--config")
            .arg(config)
            .args(["serve", "--migrate", "--listen", &listen])
            .stdout(Stdio::piped())
            // Ctrl-C reaches this process alone, which hands it on.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().context("start consign")?;
        let stdout = child.stdout.take().context("invariant: piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let banner = lines.next_line().await?;
        let banner = banner.context("consign serve did not start")?;
        let banner: Value = serde_json::from_str(&banner)?;
        let url = banner["url"].as_str().context("invariant: it listens")?;
        Ok(Service {
            url: url.to_owned(),
            child,
            _lines: lines,
        })
    }
}

/// A service that runs; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Service {
    url: String,
    child: Child,
    /// Kept open, so that the service can write to its standard output.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Waits for its end, and ends it at SIGINT or SIGTERM.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        loop {
            tokio::select! {
                status = self.child.wait() => return Ok(status?),
                _ = interrupt.recv() => self.stop()?,
                _ = terminate.recv() => self.stop()?,
            }
        }
    }

    fn stop(&self) -> Result<()> {
        let Some(id) = self.child.id() else {
            return Ok(());
        };
        let pid = Pid::from_raw(i32::try_from(id)?).context("invariant: not zero")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }
}
