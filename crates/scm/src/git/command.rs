//! The program `git`, told to trust nobody.
//!
//! Neither hooks nor programs that a repository's configuration names are run; settings of the user
//! and the system do not count, so that the same repository says the same on every machine.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
};

use crate::ScmError;

/// What is kept of what a program complains about.
const STDERR_BYTES_MAX: u64 = 8 << 10;
/// What is taken of an answer that is read whole.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The variables that are handed on: how to find programs and the way out.
const HANDED_ON: [&str; 15] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSH_AUTH_SOCK",
    "USER",
    "LOGNAME",
];
const ENVIRONMENT: [(&str, &str); 10] = [
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
    // What is not here is not fetched behind our back, from wherever the repository says.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
];
/// Stronger than the repository's own.
const SETTINGS: [(&str, &str); 17] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.askPass", ""),
    ("core.quotePath", "true"),
    ("credential.helper", ""),
    ("diff.renameLimit", "1000"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("gc.autoDetach", "false"),
    ("maintenance.autoDetach", "false"),
    ("log.showSignature", "false"),
    ("http.lowSpeedLimit", "1"),
    ("init.defaultBranch", "main"),
    // As much memory as does not slow it down, and no more the larger the repository is.
    ("core.packedGitWindowSize", "1m"),
    ("core.packedGitLimit", "16m"),
    ("core.deltaBaseCacheLimit", "16m"),
];

/// A repository, for the program.
#[derive(Clone, Debug)]
pub(super) struct Git {
    /// For errors.
    pub(super) name: String,
    dir: PathBuf,
    /// How others may be reached.
    transports: &'static str,
    settings: Vec<(String, String)>,
    /// What must not be shown, should somebody answer with it.
    hidden: Vec<String>,
}

impl Git {
    pub(super) fn new(name: &str, dir: &Path, silence_max: Duration) -> Self {
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut git = Self {
            name: name.to_owned(),
            dir: dir.to_owned(),
            transports: "none",
            settings: settings.into(),
            hidden: Vec::new(),
        };
        let seconds = silence_max.as_secs().max(1).to_string();
        git.set("http.lowSpeedTime", seconds);
        git
    }

    /// Adds a setting. It goes by the environment: arguments are for everybody to see.
    pub(super) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.settings.push((name.into(), value.into()));
    }

    /// Others may be reached. A repository that is here needs nobody, whatever it says.
    pub(super) fn allow_transports(&mut self) {
        self.transports = "http:https:file:ssh";
    }

    /// Never says this.
    pub(super) fn hide(&mut self, text: impl Into<String>) {
        self.hidden.push(text.into());
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts it.
    pub(super) fn spawn(
        &self,
        arguments: &[&str],
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<Running, ScmError> {
        let mut command = Command::new("git");
        command.env_clear().envs(ENVIRONMENT);
        let handed_on = HANDED_ON.iter();
        command.envs(handed_on.filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (n, (name, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{n}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        command.env("GIT_ALLOW_PROTOCOL", self.transports);
        // Said outright, it is not looked for in the folders above.
        command.env("GIT_DIR", &self.dir);
        let folder = self.dir.ancestors().find(|folder| folder.is_dir());
        command.current_dir(folder.unwrap_or(Path::new("/")));
        command.args(arguments).stdin(stdin).stdout(stdout);
        // Its helpers end with it, see `Running`.
        command
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| ScmError::Program {
            program: "git".to_owned(),
            detail: error.to_string(),
        })?;
        let stderr = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(beginning(stderr)));
        Ok(Running {
            name: self.name.clone(),
            hidden: self.hidden.clone(),
            stdout: child.stdout.take(),
            stderr,
            child,
        })
    }

    /// Runs it; answers what it wrote, or why it failed.
    pub(super) async fn run(
        &self,
        arguments: &[&str],
    ) -> Result<Result<String, Failure>, ScmError> {
        let mut running = self.spawn(arguments, Stdio::null(), Stdio::piped())?;
        let mut answer = Vec::new();
        if let Some(stdout) = running.stdout.take() {
            let mut stdout = stdout.take(ANSWER_BYTES_MAX);
            let read = stdout.read_to_end(&mut answer).await;
            read.map_err(|error| self.broken(&error))?;
        }
        let finished = running.finish().await?;
        Ok(finished.map(|()| String::from_utf8_lossy(&answer).trim_end().to_owned()))
    }

    /// Runs it in a repository that is here: what fails there will fail again.
    pub(super) async fn ask(&self, arguments: &[&str]) -> Result<String, ScmError> {
        let answered = self.run(arguments).await?;
        answered.map_err(|failure| failure.here(&self.name))
    }

    /// Whether it says yes.
    pub(super) async fn is(&self, arguments: &[&str]) -> Result<bool, ScmError> {
        match self.run(arguments).await? {
            Ok(_) => Ok(true),
            Err(failure) if failure.code == Some(1) || failure.code == Some(128) => Ok(false),
            Err(failure) => Err(failure.here(&self.name)),
        }
    }

    /// A pipe broke.
    pub(super) fn broken(&self, error: &io::Error) -> ScmError {
        ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("git: {error}"),
        }
    }
}

/// A program at work. Dropped before its end, it ends with all it started.
#[derive(Debug)]
pub(super) struct Running {
    name: String,
    hidden: Vec<String>,
    pub(super) stdout: Option<ChildStdout>,
    stderr: Option<JoinHandle<String>>,
    child: Child,
}

impl Running {
    /// Waits for its end.
    pub(super) async fn finish(mut self) -> Result<Result<(), Failure>, ScmError> {
        // It may be waiting for somebody to read.
        drop(self.stdout.take());
        let ended = self.child.wait().await;
        let status = ended.map_err(|error| ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("git: {error}"),
        })?;
        if status.success() {
            return Ok(Ok(()));
        }
        let said = match self.stderr.take() {
            Some(stderr) => stderr.await.unwrap_or_default(),
            None => String::new(),
        };
        let hide = |said: String, secret: &String| said.replace(secret, "***");
        Ok(Err(Failure {
            code: status.code(),
            said: self.hidden.iter().fold(said, hide),
            status,
        }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        // It fails only if nobody is left to kill.
        if let Some(group) = pid.and_then(Pid::from_raw)
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "no process left to kill");
        }
    }
}

/// Why the program failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: Option<i32>,
    /// What it complained about.
    pub(super) said: String,
    status: ExitStatus,
}

impl Failure {
    /// In one line: the last complaints say most.
    pub(super) fn detail(&self) -> String {
        let lines = self
            .said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.collect();
        match lines.len().saturating_sub(3) {
            _ if lines.is_empty() => format!("git ended with {}", self.status),
            first => lines[first..].join("; "),
        }
    }

    /// Of a repository on this machine.
    pub(super) fn here(&self, name: &str) -> ScmError {
        let (source_name, detail) = (name.to_owned(), self.detail());
        let missing = [
            "not a git repository",
            "bad object",
            "unknown revision",
            "Not a valid object",
        ];
        match missing.iter().any(|words| self.said.contains(words)) {
            true => ScmError::NotFound {
                source_name,
                detail,
            },
            false => ScmError::Protocol {
                source_name,
                detail,
            },
        }
    }
}

/// The beginning of what is written; the rest is read and forgotten.
async fn beginning(mut from: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut first = (&mut from).take(STDERR_BYTES_MAX);
    // A pipe that breaks has said what it had to say.
    drop(first.read_to_end(&mut kept).await);
    drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await);
    String::from_utf8_lossy(&kept).into_owned()
}
