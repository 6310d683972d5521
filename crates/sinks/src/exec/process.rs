//! One run of a command: fed, listened to, and ended in time with all it started.

use std::{
    io,
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, Command},
    time::{Instant, timeout, timeout_at},
};

/// As much of each of its outputs is kept; the rest is read, so that it never waits for us.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// A child of the command may hold its outputs open; the sink does not wait for that.
const PATIENCE: Duration = Duration::from_millis(100);

/// How a run ended.
#[derive(Debug)]
pub(super) enum End {
    NotStarted(io::Error),
    TimedOut,
    /// It ran, but its exit status is not available.
    Lost(io::Error),
    Exited(ExitStatus),
}

impl End {
    pub(super) fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Exited(status) => status.code(),
            _ => None,
        }
    }
}

/// The beginnings of what a command printed.
#[derive(Debug, Default)]
pub(super) struct Output {
    stdout: CapturedOutput,
    stderr: CapturedOutput,
}

impl Output {
    pub(super) fn into_json(self, exit_code: Option<i32>) -> Value {
        let text = |kept: &CapturedOutput| String::from_utf8_lossy(&kept.bytes).into_owned();
        json!({
            "exit_code": exit_code,
            "stdout": text(&self.stdout),
            "stderr": text(&self.stderr),
            "cut": self.stdout.cut || self.stderr.cut,
        })
    }
}

#[derive(Debug, Default)]
struct CapturedOutput {
    bytes: Vec<u8>,
    cut: bool,
}

impl CapturedOutput {
    async fn drain(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut chunk = [0; 4096];
        // An output that cannot be read is worth no more than one that has ended.
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            let room = KEPT_BYTES_MAX - self.bytes.len();
            self.bytes.extend_from_slice(&chunk[..count.min(room)]);
            self.cut |= count > room;
        }
    }
}

/// Runs a command to its end, or until `ends`. Dropped before that, it kills what it started.
pub(super) async fn run(
    mut command: Command,
    input: &[u8],
    output: &mut Output,
    ends: Instant,
) -> End {
    let spawned = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return End::NotStarted(error),
    };
    let mut group = Group::of(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut talking = pin!(async {
        tokio::join!(
            feed(stdin, input),
            output.stdout.drain(stdout),
            output.stderr.drain(stderr),
        )
    });
    let mut said_all = false;
    let ended = timeout_at(ends, async {
        tokio::select! {
            status = child.wait() => return status,
            _ = &mut talking => said_all = true,
        }
        child.wait().await
    });
    match ended.await {
        Ok(Ok(status)) => {
            group.disarm();
            if !said_all {
                // Incomplete output does not change the outcome.
                timeout(PATIENCE, talking).await.unwrap_or_default();
            }
            End::Exited(status)
        }
        Ok(Err(error)) => End::Lost(error),
        Err(_) => {
            group.kill();
            match child.wait().await {
                Ok(_) => End::TimedOut,
                Err(error) => End::Lost(error),
            }
        }
    }
}

/// A command need not read its input; its exit code decides.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut stdin) = stdin
        && let Err(error) = stdin.write_all(input).await
    {
        tracing::debug!(%error, "the command did not read all of its input");
    }
}

/// The processes a command started, itself included. Killed when dropped, unless it has ended.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    /// Its number may belong to others from now on.
    fn disarm(&mut self) {
        self.0 = None;
    }

    fn kill(&mut self) {
        // It fails only if no process is left.
        if let Some(group) = self.0.take()
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "no process left to kill");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
