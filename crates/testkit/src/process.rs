//! Real programs as the other side of a test.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::wait::eventually_some;

const LINE_DEADLINE: Duration = Duration::from_secs(30);

/// A running program that is killed when this value is dropped.
///
/// Its standard error is that of the test, so it is shown when the test fails.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    stdin: Option<ChildStdin>,
    /// Lines of standard output, read by a thread so that the program never blocks on a full pipe.
    lines: mpsc::UnboundedReceiver<String>,
    line_deadline: Duration,
}

impl Child {
    /// Starts `command` with piped standard input and output.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().expect("standard output is piped");
        let (sender, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            let read = BufReader::new(stdout).lines().map_while(Result::ok);
            read.map(|line| sender.send(line))
                .take_while(Result::is_ok)
                .for_each(drop);
        });
        Self {
            process,
            stdin,
            lines,
            line_deadline: LINE_DEADLINE,
        }
    }

    /// How long [`expect_line`](Self::expect_line) waits; half a minute by default.
    pub fn with_line_deadline(mut self, deadline: Duration) -> Self {
        self.line_deadline = deadline;
        self
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Reads standard output up to the first line that starts with `prefix`, and returns that line.
    pub async fn expect_line(&mut self, prefix: &str) -> String {
        let ends = Instant::now() + self.line_deadline;
        let mut passed = Vec::new();
        loop {
            match timeout_at(ends, self.lines.recv()).await {
                Ok(Some(line)) if line.starts_with(prefix) => return line,
                Ok(Some(line)) => passed.push(line),
                Ok(None) => {
                    panic!("output ended before a line {prefix:?}; its output: {passed:#?}")
                }
                Err(_) => panic!(
                    "no line {prefix:?} within {:?}; its output: {passed:#?}",
                    self.line_deadline
                ),
            }
        }
    }

    /// Writes one line to the program's standard input.
    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("standard input is still open");
        writeln!(stdin, "{line}").expect("write to the program's standard input");
    }

    /// Closes the program's standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Stops the program (SIGTERM).
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Stops the program where it is (SIGSTOP), as a long pause of its machine would.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets a paused program go on (SIGCONT).
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Kills the program (SIGKILL) and returns when it is gone.
    pub fn kill9(&mut self) {
        // Killing fails only for a process that has already been waited for.
        self.process.kill().expect("kill the program");
        self.process.wait().expect("wait for the killed program");
    }

    /// Waits until the program has ended by itself.
    pub async fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let process = &mut self.process;
        eventually_some("the program ends", deadline, || {
            let status = process
                .try_wait()
                .expect("ask for the program's exit status");
            std::future::ready(status)
        })
        .await
    }

    /// Sends a signal through the shell's own `kill`, which needs neither unsafe code nor another
    /// dependency.
    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        let status = Command::new("sh")
            .args(["-c", &kill])
            .status()
            .expect("run sh");
        assert!(status.success(), "{kill}: {status}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A process that has been waited for is not signalled again, so a reused id is safe.
        if self
            .process
            .kill()
            .and_then(|()| self.process.wait().map(drop))
            .is_err()
        {
            eprintln!("process {} may be left running", self.process.id());
        }
    }
}
