//! The program `git`, isolated from foreign configuration.
//!
//! Hooks and programs named in a repository's configuration are not run; user and system settings
//! are ignored, so that the same repository gives the same result on every machine.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use consign_redact::Secret;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdout, Command},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};

use crate::{ScmError, environment};

/// Maximum stored stderr output.
const STDERR_BYTES_MAX: usize = 8 << 10;
const PIECE_BYTES: usize = 8 << 10;
/// How long stderr is read after the program ended: a process left behind may keep it open.
const STDERR_WAIT_MAX: Duration = Duration::from_secs(2);
/// Git reports progress of a transfer, but not while it checks the received pack. It may be silent
/// this many times longer than a connection, which http and ssh supervise.
const SILENCE_FACTOR: u32 = 10;
/// Lines that Git adds to every remote failure; the cause precedes them.
const BOILERPLATE: [&str; 3] = [
    "Could not read from remote repository",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
];
/// Maximum size of an answer that is read whole.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const ENVIRONMENT: [(&str, &str); 9] = [
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // Missing objects are not fetched from wherever the repository's configuration points.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
];
/// Settings that override the repository's own.
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
    // Enough memory for full speed, independent of the repository's size.
    ("core.packedGitWindowSize", "1m"),
    ("core.packedGitLimit", "16m"),
    ("core.deltaBaseCacheLimit", "16m"),
];

/// A repository with the settings of its `git` processes.
#[derive(Clone, Debug)]
pub(super) struct Git {
    /// Name for errors.
    pub(super) name: String,
    dir: PathBuf,
    /// Allowed transports.
    transports: &'static str,
    settings: Vec<(String, String)>,
    ssh: String,
    /// Maximum silence, and maximum time of an answer that is read whole.
    pub(super) patience: Duration,
    /// Secrets that must not appear in errors.
    hidden: Vec<Secret>,
}

impl Git {
    pub(super) fn new(name: &str, dir: &Path, silence_max: Duration) -> Self {
        let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let seconds = silence_max.as_secs().max(1);
        let mut git = Self {
            name: name.to_owned(),
            dir: dir.to_owned(),
            transports: "none",
            settings: settings.into(),
            ssh: ssh(seconds),
            patience: silence_max * SILENCE_FACTOR,
            hidden: Vec::new(),
        };
        git.set("http.lowSpeedTime", seconds.to_string());
        git
    }

    /// Adds a setting by environment: arguments are visible to other users.
    pub(super) fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.settings.push((name.into(), value.into()));
    }

    /// Allows network access. A local repository never needs it.
    pub(super) fn allow_transports(&mut self) {
        self.transports = "http:https:file:ssh";
    }

    /// Masks this text in errors.
    pub(super) fn hide(&mut self, text: impl Into<String>) {
        self.hidden.push(Secret::new(text));
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The same in another folder.
    pub(super) fn at(&self, dir: PathBuf) -> Self {
        Self {
            dir,
            ..self.clone()
        }
    }

    /// Starts it.
    pub(super) fn spawn(
        &self,
        arguments: &[&str],
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<RunningCommand, ScmError> {
        let mut command = Command::new("git");
        command.env_clear().envs(ENVIRONMENT);
        command.envs(environment::handed_on());
        command.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (n, (name, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{n}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        command.env("GIT_ALLOW_PROTOCOL", self.transports);
        command.env("GIT_SSH_COMMAND", &self.ssh);
        // With GIT_DIR set, git does not search parent folders.
        command.env("GIT_DIR", &self.dir);
        let folder = self.dir.ancestors().find(|folder| folder.is_dir());
        command.current_dir(folder.unwrap_or(Path::new("/")));
        command.args(arguments).stdin(stdin).stdout(stdout);
        // Child processes of git end with it, see `RunningCommand`.
        command
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| ScmError::Program {
            program: "git".to_owned(),
            detail: error.to_string(),
        })?;
        let (output, tail) = (Arc::new(Notify::new()), OutputTail::default());
        let stderr = child.stderr.take();
        let stderr = stderr
            .map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&tail), Arc::clone(&output))));
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(RunningCommand {
            name: self.name.clone(),
            hidden: self.hidden.clone(),
            stdout: child.stdout.take(),
            stderr,
            tail,
            output,
            group: id.and_then(Pid::from_raw),
            child,
            patience: self.patience,
        })
    }

    /// Runs git; returns its output or the failure. After the timeout git and its child processes
    /// are killed.
    pub(super) async fn run(
        &self,
        arguments: &[&str],
    ) -> Result<Result<String, Failure>, ScmError> {
        self.run_for(self.patience, arguments).await
    }

    /// The same with its own time limit.
    pub(super) async fn run_for(
        &self,
        patience: Duration,
        arguments: &[&str],
    ) -> Result<Result<String, Failure>, ScmError> {
        let running = self.spawn(arguments, Stdio::null(), Stdio::piped())?;
        let answered = timeout(patience, self.answer(running)).await;
        answered.unwrap_or_else(|_| Err(hanging(&self.name, patience)))
    }

    /// Waits for the next part of an answer, with a time limit.
    pub(super) async fn in_time<T>(
        &self,
        reading: impl Future<Output = io::Result<T>>,
    ) -> Result<T, ScmError> {
        match timeout(self.patience, reading).await {
            Ok(read) => read.map_err(|error| self.broken(&error)),
            Err(_) => Err(hanging(&self.name, self.patience)),
        }
    }

    /// Runs git with network access. After too long a silence git and its child processes are
    /// killed.
    pub(super) async fn reach(
        &self,
        arguments: &[&str],
    ) -> Result<Result<String, Failure>, ScmError> {
        let running = self.spawn(arguments, Stdio::null(), Stdio::piped())?;
        let output = Arc::clone(&running.output);
        let silence = async { while timeout(self.patience, output.notified()).await.is_ok() {} };
        tokio::select! {
            biased;
            answered = self.answer(running) => answered,
            () = silence => Err(ScmError::Network {
                source_name: self.name.clone(),
                tries: 1,
                detail: format!("git was silent for {:?} and was killed", self.patience),
            }),
        }
    }

    async fn answer(
        &self,
        mut running: RunningCommand,
    ) -> Result<Result<String, Failure>, ScmError> {
        let mut answer = Vec::new();
        if let Some(stdout) = running.stdout.take() {
            let mut stdout = stdout.take(ANSWER_BYTES_MAX);
            let read = stdout.read_to_end(&mut answer).await;
            read.map_err(|error| self.broken(&error))?;
        }
        let finished = running.finish().await?;
        Ok(finished.map(|()| String::from_utf8_lossy(&answer).trim_end().to_owned()))
    }

    /// Runs git in a local repository: a failure there is permanent.
    pub(super) async fn run_local(&self, arguments: &[&str]) -> Result<String, ScmError> {
        let answered = self.run(arguments).await?;
        answered.map_err(|failure| failure.here(&self.name))
    }

    /// Whether the command succeeds.
    pub(super) async fn is(&self, arguments: &[&str]) -> Result<bool, ScmError> {
        match self.run(arguments).await? {
            Ok(_) => Ok(true),
            Err(failure) if failure.code == Some(1) || failure.code == Some(128) => Ok(false),
            Err(failure) => Err(failure.here(&self.name)),
        }
    }

    /// A pipe failed.
    pub(super) fn broken(&self, error: &io::Error) -> ScmError {
        ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("git: {error}"),
        }
    }
}

/// A running process. Dropping it kills it and its child processes.
#[derive(Debug)]
pub(super) struct RunningCommand {
    name: String,
    hidden: Vec<Secret>,
    pub(super) stdout: Option<ChildStdout>,
    stderr: Option<JoinHandle<()>>,
    tail: OutputTail,
    /// Notified when stderr has new output.
    output: Arc<Notify>,
    /// Process group; `None` once all have ended.
    group: Option<Pid>,
    child: Child,
    patience: Duration,
}

impl RunningCommand {
    /// Waits for the end.
    pub(super) async fn finish(mut self) -> Result<Result<(), Failure>, ScmError> {
        // Closes stdout, because the program may be blocked on it.
        drop(self.stdout.take());
        let Ok(ended) = timeout(self.patience, self.child.wait()).await else {
            return Err(hanging(&self.name, self.patience));
        };
        let status = ended.map_err(|error| ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("git: {error}"),
        })?;
        let is_drained = match &mut self.stderr {
            Some(stderr) if !status.success() => timeout(STDERR_WAIT_MAX, stderr).await.is_ok(),
            _ => true,
        };
        // The group has ended; its id may be reused, so it must not be signalled any more.
        if is_drained {
            self.group = None;
        }
        if status.success() {
            return Ok(Ok(()));
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let stderr = String::from_utf8_lossy(&tail).into_owned();
        let hide = |stderr: String, secret: &Secret| secret.mask_in(&stderr);
        Ok(Err(Failure {
            code: status.code(),
            stderr: self.hidden.iter().fold(stderr, hide),
            status,
        }))
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if let Some(stderr) = &self.stderr {
            stderr.abort();
        }
        // Fails only if no process is left.
        if let Some(group) = self.group
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
    /// Its stderr output.
    pub(super) stderr: String,
    status: ExitStatus,
}

impl Failure {
    /// The last lines of stderr on one line: they are the most specific.
    pub(super) fn detail(&self) -> String {
        let is_cause = |line: &&str| {
            let is_progress = line.contains("% (");
            !line.is_empty() && !is_progress && !BOILERPLATE.iter().any(|end| line.contains(end))
        };
        let lines = self.stderr.split(['\n', '\r']).map(str::trim);
        let lines: Vec<&str> = lines.filter(is_cause).collect();
        match lines.len().saturating_sub(3) {
            _ if lines.is_empty() => format!("git ended with {}", self.status),
            first => lines[first..].join("; "),
        }
    }

    /// The error for a local repository.
    pub(super) fn here(&self, name: &str) -> ScmError {
        let (source_name, detail) = (name.to_owned(), self.detail());
        let missing = [
            "not a git repository",
            "bad object",
            "unknown revision",
            "Not a valid object",
        ];
        if missing.iter().any(|words| self.stderr.contains(words)) {
            ScmError::NotFound {
                source_name,
                detail,
            }
        } else {
            ScmError::Protocol {
                source_name,
                detail,
            }
        }
    }
}

/// No progress: a disk or file system that does not respond, or a pipe in place of a file.
fn hanging(name: &str, patience: Duration) -> ScmError {
    ScmError::Timeout {
        source_name: name.to_owned(),
        detail: format!("git made no progress for {patience:?} and was killed"),
    }
}

/// The ssh command: non-interactive, with time limits for connecting and for silence.
fn ssh(seconds: u64) -> String {
    format!(
        "ssh -oBatchMode=yes -oConnectTimeout={seconds} -oServerAliveInterval={seconds} \
         -oServerAliveCountMax=1"
    )
}

/// The last part of the output.
type OutputTail = Arc<Mutex<Vec<u8>>>;

/// Keeps the last part of the output and discards the rest.
async fn listen(mut from: impl AsyncRead + Unpin, tail: OutputTail, output: Arc<Notify>) {
    let mut piece = vec![0; PIECE_BYTES];
    // A broken pipe ends the output.
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        output.notify_one();
        let mut kept = tail.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&piece[..length]);
        let excess = kept.len().saturating_sub(STDERR_BYTES_MAX);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn failure(stderr: &str) -> Failure {
        Failure {
            code: Some(128),
            stderr: stderr.to_owned(),
            status: ExitStatus::from_raw(128 << 8),
        }
    }

    #[test]
    fn ssh_has_time_limits() {
        let git = Git::new("x", Path::new("/x"), Duration::from_secs(7));
        let expected = "ssh -oBatchMode=yes -oConnectTimeout=7 -oServerAliveInterval=7 \
                        -oServerAliveCountMax=1";
        assert_eq!(git.ssh, expected);
        let git = Git::new("x", Path::new("/x"), Duration::from_millis(1));
        assert!(git.ssh.contains("ConnectTimeout=1 "), "0 is for ever");
    }

    #[test]
    fn the_cause_is_reported_without_gits_boilerplate() {
        let stderr = "ssh: connect to host h port 22: No route to host\n\
                    fatal: Could not read from remote repository.\n\n\
                    Please make sure you have the correct access rights\n\
                    and the repository exists.\n";
        let cause = "ssh: connect to host h port 22: No route to host";
        assert_eq!(failure(stderr).detail(), cause);
        let stderr =
            "Receiving objects:   1% (1/99)\rReceiving objects:   2% (2/99)\rfatal: early EOF\n";
        assert_eq!(failure(stderr).detail(), "fatal: early EOF");
        let boilerplate = "fatal: Could not read from remote repository.\n";
        assert!(failure(boilerplate).detail().starts_with("git ended with"));
    }

    #[tokio::test]
    async fn the_last_part_of_stderr_is_kept() {
        let stderr = format!("{}fatal: x", "progress\r".repeat(STDERR_BYTES_MAX));
        let kept = OutputTail::default();
        listen(stderr.as_bytes(), Arc::clone(&kept), Arc::default()).await;
        let kept = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
        assert_eq!(kept.len(), STDERR_BYTES_MAX);
        assert!(kept.ends_with("fatal: x"), "{kept}");
    }

    /// A child process that keeps the pipe open is neither waited for nor left running.
    #[tokio::test]
    async fn leftover_children_are_killed_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let mut git = Git::new("x", folder.path(), Duration::from_secs(60));
        let script = format!(
            "!cat <>{} >/dev/null & echo gone wrong >&2; exit 3; :",
            pipe.display()
        );
        git.set("alias.left", script);
        let failed = git.run(&["left"]).await.unwrap().unwrap_err();
        assert_eq!(failed.code, Some(3));
        assert!(failed.stderr.contains("gone wrong"), "{}", failed.stderr);
        // Closed: no process can write to it.
        let is_closed = || async {
            let sender = tokio::net::unix::pipe::OpenOptions::new().open_sender(&pipe);
            sender.is_err()
        };
        consign_testkit::eventually("the helper ended", Duration::from_secs(30), is_closed).await;
    }
}
