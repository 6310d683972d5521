//! Processes of consign itself, started and ended as an operator would.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// How long a process may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Variables that would override the configuration file.
const VARIABLES: &[&str] = &[
    "DATABASE_URL",
    "POSTGRES_DSN",
    "RUST_LOG",
    "NOTIFY_SOCKET",
    "DAILY_QUOTA",
    "PROJECT_KEY",
    "OM_API_KEY",
    "DEFAULT_TEAM_SPACE",
    "PRIVATE_SPACE_PREFIX",
    "GOVERNANCE_ADMIN_KEY",
    "UNKNOWN_ACTOR_POLICY",
    "VALIDATE_EVIDENCE_REFS",
    "STRICT_MODE_ENFORCE_VALIDATE_REFS",
    "EVIDENCE_MAX_SIZE_BYTES",
];
/// The same, for families of them.
const PREFIXES: &[&str] = &[
    "CONSIGN_",
    "OUTBOX_",
    "BROKER_",
    "IDEMPO_",
    "RL_",
    "OPENMEMORY_",
    "GATEWAY_",
    "WORKER_",
    "SCM_",
];

/// The program, and a directory for its configurations and logs.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    directory: TempDir,
}

impl Program {
    pub(crate) fn new(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            directory: tempfile::tempdir()?,
        })
    }

    /// A command with this configuration, which answers in JSON and complains into a file.
    pub(crate) fn command(&self, arguments: &[&str], name: &str, config: &str) -> Result<Command> {
        let file = self.directory.path().join(format!("{name}.toml"));
        std::fs::write(&file, config)?;
        let log = self.directory.path().join(format!("{name}.log"));
        let mut consign = Command::new(&self.path);
        consign
            .args(["--json", "--config"])
            .arg(file)
            .args(arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_family = PREFIXES.iter().any(|prefix| text.starts_with(prefix));
            if is_family || VARIABLES.contains(&text.as_ref()) {
                consign.env_remove(&name);
            }
        }
        // Its database has every app; payments are claimed by the scenarios themselves.
        consign
            .env("CONSIGN_APPS", "orders,payments,memory,scm")
            .env("CONSIGN_PAYMENTS__RAIL", "none");
        Ok(consign)
    }

    /// Starts `consign work` or `consign serve` with this configuration, and returns once it is up.
    pub(crate) async fn start(&self, command: &str, name: &str, config: &str) -> Result<Process> {
        let mut consign = self.command(&[command], name, config)?;
        consign.stdout(Stdio::piped());
        let mut child = consign.spawn().context("start consign")?;
        let stdout = child.stdout.take().context("invariant: piped")?;
        let mut lines = BufReader::new(stdout).lines();
        // Its first line has the address it listens on.
        let line = timeout(PATIENCE, lines.next_line()).await;
        let Ok(Ok(Some(line))) = line else {
            let said = self.log_text(name);
            bail!("consign {command} did not start: {said}");
        };
        let banner: Value = serde_json::from_str(&line)?;
        let pid = child.id().context("invariant: it has not ended")?;
        Ok(Process {
            child,
            pid,
            url: banner["url"].as_str().map(str::to_owned),
            _lines: lines,
        })
    }

    /// What a command of this name complained about.
    pub(crate) fn log_text(&self, name: &str) -> String {
        let log = self.directory.path().join(format!("{name}.log"));
        std::fs::read_to_string(log).unwrap_or_default()
    }
}

/// A running process; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) pid: u32,
    /// Where it listens, if it does.
    url: Option<String>,
    /// Kept open: a closed standard output would change its behaviour.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Host and port of its HTTP side.
    pub(crate) fn address(&self) -> Result<&str> {
        let url = self.url.as_deref().context("the process does not listen")?;
        Ok(url.trim_start_matches("http://").trim_end_matches('/'))
    }

    /// Kills it with -9.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Stops it, and returns its exit status.
    pub(crate) async fn terminate(mut self) -> Result<ExitStatus> {
        let pid = Pid::from_raw(i32::try_from(self.pid)?).context("invariant: not zero")?;
        kill_process(pid, Signal::TERM)?;
        let status = timeout(PATIENCE, self.child.wait()).await;
        Ok(status.context("the process did not end")??)
    }
}

/// A configuration for a database, with the tables of its queues as TOML.
pub(crate) fn config(database: &str, queues: &str) -> String {
    format!(
        "[database]\nurl = {}\n\n[server]\nlisten = \"127.0.0.1:0\"\n\n\
         [server.rate_limit]\nper_second = 0\n\n{queues}",
        Value::from(database)
    )
}
