//! The program `git`, told to trust nobody.
//!
//! Neither hooks nor programs that a repository's configuration names are run; settings of the user
//! and the system do not count, so that the same repository says the same on every machine.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdout, Command},
    sync::Notify,
    task::JoinHandle,
    time::timeout,
};

use crate::{ScmError, environment};

/// What is kept of what a program complains about.
const STDERR_BYTES_MAX: usize = 8 << 10;
const PIECE_BYTES: usize = 8 << 10;
/// What a program said is read as soon as it has ended, unless somebody it left behind goes on talking.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);
/// Git tells how a transfer goes on, but not while it looks over what it got. It may be silent for so
/// many times as long as a connection may, for which http and ssh see.
const SILENCES: u32 = 10;
/// What Git adds to everything that goes wrong elsewhere: the cause stands before it.
const BOILERPLATE: [&str; 3] = [
    "Could not read from remote repository",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
];
/// What is taken of an answer that is read whole.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const ENVIRONMENT: [(&str, &str); 9] = [
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
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
    ssh: String,
    /// How long it may be silent, or take for an answer that comes in one piece.
    pub(super) patience: Duration,
    /// What must not be shown, should somebody answer with it.
    hidden: Vec<String>,
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
            patience: silence_max * SILENCES,
            hidden: Vec::new(),
        };
        git.set("http.lowSpeedTime", seconds.to_string());
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
    ) -> Result<Running, ScmError> {
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
        let (heard, said) = (Arc::new(Notify::new()), Said::default());
        let stderr = child.stderr.take();
        let stderr = stderr
            .map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&said), Arc::clone(&heard))));
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Running {
            name: self.name.clone(),
            hidden: self.hidden.clone(),
            stdout: child.stdout.take(),
            stderr,
            said,
            heard,
            group: id.and_then(Pid::from_raw),
            child,
            patience: self.patience,
        })
    }

    /// Runs it; answers what it wrote, or why it failed. If it takes too long, it is ended with all it
    /// started.
    pub(super) async fn run(
        &self,
        arguments: &[&str],
    ) -> Result<Result<String, Failure>, ScmError> {
        self.run_for(self.patience, arguments).await
    }

    /// The same for what is known to take long.
    pub(super) async fn run_for(
        &self,
        patience: Duration,
        arguments: &[&str],
    ) -> Result<Result<String, Failure>, ScmError> {
        let running = self.spawn(arguments, Stdio::null(), Stdio::piped())?;
        let answered = timeout(patience, self.answer(running)).await;
        answered.unwrap_or_else(|_| Err(hanging(&self.name, patience)))
    }

    /// Waits for the next piece of an answer, but not for ever.
    pub(super) async fn in_time<T>(
        &self,
        reading: impl Future<Output = io::Result<T>>,
    ) -> Result<T, ScmError> {
        match timeout(self.patience, reading).await {
            Ok(read) => read.map_err(|error| self.broken(&error)),
            Err(_) => Err(hanging(&self.name, self.patience)),
        }
    }

    /// Runs what talks to others. If it says nothing for too long, it is ended with all it started.
    pub(super) async fn reach(
        &self,
        arguments: &[&str],
    ) -> Result<Result<String, Failure>, ScmError> {
        let running = self.spawn(arguments, Stdio::null(), Stdio::piped())?;
        let heard = Arc::clone(&running.heard);
        let silence = async { while timeout(self.patience, heard.notified()).await.is_ok() {} };
        tokio::select! {
            biased;
            answered = self.answer(running) => answered,
            () = silence => Err(ScmError::Network {
                source_name: self.name.clone(),
                tries: 1,
                detail: format!("git said nothing for {:?} and was ended", self.patience),
            }),
        }
    }

    async fn answer(&self, mut running: Running) -> Result<Result<String, Failure>, ScmError> {
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
    stderr: Option<JoinHandle<()>>,
    said: Said,
    /// It complained about something, or told how it gets on.
    heard: Arc<Notify>,
    /// Itself and all it started; none once all have ended.
    group: Option<Pid>,
    child: Child,
    patience: Duration,
}

impl Running {
    /// Waits for its end.
    pub(super) async fn finish(mut self) -> Result<Result<(), Failure>, ScmError> {
        // It may be waiting for somebody to read.
        drop(self.stdout.take());
        let Ok(ended) = timeout(self.patience, self.child.wait()).await else {
            return Err(hanging(&self.name, self.patience));
        };
        let status = ended.map_err(|error| ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("git: {error}"),
        })?;
        let heard_out = match &mut self.stderr {
            Some(stderr) if !status.success() => timeout(LAST_WORDS_MAX, stderr).await.is_ok(),
            _ => true,
        };
        // It has ended; a group in which nobody is left may soon be somebody else's.
        if heard_out {
            self.group = None;
        }
        if status.success() {
            return Ok(Ok(()));
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = String::from_utf8_lossy(&said).into_owned();
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
        if let Some(stderr) = &self.stderr {
            stderr.abort();
        }
        // It fails only if nobody is left to kill.
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
    /// What it complained about.
    pub(super) said: String,
    status: ExitStatus,
}

impl Failure {
    /// In one line: the last complaints say most.
    pub(super) fn detail(&self) -> String {
        let is_cause = |line: &&str| {
            let is_progress = line.contains("% (");
            !line.is_empty() && !is_progress && !BOILERPLATE.iter().any(|end| line.contains(end))
        };
        let lines = self.said.split(['\n', '\r']).map(str::trim);
        let lines: Vec<&str> = lines.filter(is_cause).collect();
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

/// It neither goes on nor ends: a disk or a file system that does not answer, or a pipe where a file
/// should be.
fn hanging(name: &str, patience: Duration) -> ScmError {
    ScmError::Timeout {
        source_name: name.to_owned(),
        detail: format!("git did not get on for {patience:?} and was ended"),
    }
}

/// The program for ssh: it asks nobody, and it neither waits for a server nor stays with one that
/// says nothing.
fn ssh(seconds: u64) -> String {
    format!(
        "ssh -oBatchMode=yes -oConnectTimeout={seconds} -oServerAliveInterval={seconds} \
         -oServerAliveCountMax=1"
    )
}

/// The end of what was written so far.
type Said = Arc<Mutex<Vec<u8>>>;

/// Keeps the end of what is written; what came before is read and forgotten.
async fn listen(mut from: impl AsyncRead + Unpin, said: Said, heard: Arc<Notify>) {
    let mut piece = vec![0; PIECE_BYTES];
    // A pipe that breaks has said what it had to say.
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        heard.notify_one();
        let mut kept = said.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&piece[..length]);
        let excess = kept.len().saturating_sub(STDERR_BYTES_MAX);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn failure(said: &str) -> Failure {
        Failure {
            code: Some(128),
            said: said.to_owned(),
            status: ExitStatus::from_raw(128 << 8),
        }
    }

    #[test]
    fn ssh_waits_for_nobody() {
        let git = Git::new("x", Path::new("/x"), Duration::from_secs(7));
        let expected = "ssh -oBatchMode=yes -oConnectTimeout=7 -oServerAliveInterval=7 \
                        -oServerAliveCountMax=1";
        assert_eq!(git.ssh, expected);
        let git = Git::new("x", Path::new("/x"), Duration::from_millis(1));
        assert!(git.ssh.contains("ConnectTimeout=1 "), "0 is for ever");
    }

    #[test]
    fn the_cause_is_told_without_what_git_always_says() {
        let said = "ssh: connect to host h port 22: No route to host\n\
                    fatal: Could not read from remote repository.\n\n\
                    Please make sure you have the correct access rights\n\
                    and the repository exists.\n";
        let cause = "ssh: connect to host h port 22: No route to host";
        assert_eq!(failure(said).detail(), cause);
        let said =
            "Receiving objects:   1% (1/99)\rReceiving objects:   2% (2/99)\rfatal: early EOF\n";
        assert_eq!(failure(said).detail(), "fatal: early EOF");
        let boilerplate = "fatal: Could not read from remote repository.\n";
        assert!(failure(boilerplate).detail().starts_with("git ended with"));
    }

    #[tokio::test]
    async fn of_many_words_the_last_are_kept() {
        let said = format!("{}fatal: x", "progress\r".repeat(STDERR_BYTES_MAX));
        let kept = Said::default();
        listen(said.as_bytes(), Arc::clone(&kept), Arc::default()).await;
        let kept = String::from_utf8(kept.lock().unwrap().clone()).unwrap();
        assert_eq!(kept.len(), STDERR_BYTES_MAX);
        assert!(kept.ends_with("fatal: x"), "{kept}");
    }

    /// A helper that stays behind and keeps the pipe open is neither waited for nor left alone.
    #[tokio::test]
    async fn who_is_left_behind_is_ended_and_not_waited_for() {
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
        assert!(failed.said.contains("gone wrong"), "{}", failed.said);
        // Nobody has it open any more, so nobody can write to it.
        let is_closed = || async {
            let sender = tokio::net::unix::pipe::OpenOptions::new().open_sender(&pipe);
            sender.is_err()
        };
        consign_testkit::eventually("the helper ended", Duration::from_secs(30), is_closed).await;
    }
}
