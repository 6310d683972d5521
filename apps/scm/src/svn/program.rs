//! The program `svn`: arguments and failures.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

use super::{
    failure,
    xml::{Tag, TagReader},
};
use crate::{Credential, ScmError, SourceOptions, environment};

const PROGRAM: &str = "svn";
const READ_BYTES: usize = 64 << 10;
/// More than error messages have; the rest is discarded.
const ERRORS_BYTES_MAX: usize = 16 << 10;

/// Consumer of the XML.
pub(super) trait Reader: Send {
    /// Takes a tag; returns a message if it is invalid.
    fn take(&mut self, piece: Tag) -> Result<(), String>;

    /// Whether it needs no more input.
    fn is_full(&self) -> bool {
        false
    }
}

/// Invocation of `svn` for one repository.
#[derive(Debug)]
pub(super) struct Program {
    /// The repository, for errors.
    name: String,
    credential: Option<Credential>,
    settings: Vec<String>,
    silence_max: Duration,
}

impl Program {
    pub(super) fn new(name: &str, options: &SourceOptions) -> Self {
        let seconds = options.silence_max.as_secs().max(1);
        let mut settings = vec![
            // No keyring: a service cannot unlock it.
            "config:auth:password-stores=".to_owned(),
            format!("servers:global:http-timeout={seconds}"),
        ];
        if let Some(file) = &options.ca_file {
            let file = file.display();
            settings.push(format!("servers:global:ssl-authority-files={file}"));
        }
        Self {
            name: name.to_owned(),
            credential: options.credential.clone(),
            settings,
            silence_max: options.silence_max,
        }
    }

    /// Starts it.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Output, ScmError> {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).arg("--non-interactive");
        for setting in &self.settings {
            command.arg("--config-option").arg(setting);
        }
        if let Some(credential) = &self.credential {
            if let Some(user) = &credential.user {
                command.arg("--username").arg(user);
            }
            command.args(["--password-from-stdin", "--no-auth-cache"]);
        }
        command
            .env_clear()
            .envs(environment::handed_on())
            // UTF-8 file names and English messages.
            .env("LC_ALL", "C.UTF-8")
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Non-interactive.
        let ssh = || "ssh -q -o BatchMode=yes".into();
        command.env("SVN_SSH", std::env::var_os("SVN_SSH").unwrap_or_else(ssh));
        let mut child = command.spawn().map_err(|error| self.missing(&error))?;
        let secret = self.credential.as_ref().map(|it| it.secret.clone());
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(self.missing(&std::io::Error::other("its pipes are missing")));
        };
        // Both end with the program: a full pipe cannot block it.
        tokio::spawn(write_input(
            stdin,
            secret.map(|it| format!("{}\n", it.reveal())),
        ));
        let errors = tokio::spawn(async move {
            let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let room = ERRORS_BYTES_MAX - kept.len();
                kept.extend_from_slice(&buffer[..read.min(room)]);
            }
            String::from_utf8_lossy(&kept).into_owned()
        });
        Ok(Output {
            name: self.name.clone(),
            silence_max: self.silence_max,
            child,
            stdout,
            errors,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Runs it and passes its XML on, until the end or until the reader is full.
    pub(super) async fn read_xml(
        &self,
        arguments: &[&str],
        reader: &mut impl Reader,
    ) -> Result<(), ScmError> {
        let what = arguments.first().copied().unwrap_or_default();
        let strange = |detail: String| ScmError::Protocol {
            source_name: self.name.clone(),
            detail: format!("svn {what}: {detail}"),
        };
        let (mut output, mut pieces) = (self.start(arguments)?, TagReader::default());
        while let Some(bytes) = output.next().await? {
            let on_tag = &mut |piece| reader.take(piece);
            pieces.push(bytes, on_tag).map_err(strange)?;
            if reader.is_full() {
                return Ok(());
            }
        }
        if pieces.is_between() {
            Ok(())
        } else {
            Err(strange("the output ends within a tag".into()))
        }
    }

    fn missing(&self, error: &std::io::Error) -> ScmError {
        ScmError::Program {
            program: PROGRAM.to_owned(),
            detail: error.to_string(),
        }
    }
}

/// A program that ends before it read everything reports the reason itself.
async fn write_input(mut stdin: ChildStdin, text: Option<String>) {
    if let Some(text) = text
        && let Err(error) = stdin.write_all(text.as_bytes()).await
    {
        tracing::debug!(%error, "svn closed its input");
    }
}

/// A running `svn`. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Output {
    name: String,
    silence_max: Duration,
    child: Child,
    stdout: ChildStdout,
    errors: JoinHandle<String>,
    buffer: Vec<u8>,
}

impl Output {
    /// Its next output; `None` after a successful end.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, ScmError> {
        let read = match timeout(self.silence_max, self.stdout.read(&mut self.buffer)).await {
            Ok(read) => read.map_err(|error| self.unreachable(&error.to_string()))?,
            Err(_) => return Err(self.silent()),
        };
        if read > 0 {
            return Ok(Some(&self.buffer[..read]));
        }
        let status = match timeout(self.silence_max, self.child.wait()).await {
            Ok(status) => status.map_err(|error| self.unreachable(&error.to_string()))?,
            Err(_) => return Err(self.silent()),
        };
        if status.success() {
            return Ok(None);
        }
        // A child process of svn may keep the pipe open; the message came before the end.
        let errors = match timeout(Duration::from_secs(1), &mut self.errors).await {
            Ok(Ok(errors)) => errors,
            _ => format!("svn ended with {status} without a message"),
        };
        Err(failure::of(&self.name, &errors))
    }

    fn silent(&self) -> ScmError {
        let seconds = self.silence_max.as_secs_f32();
        self.unreachable(&format!("no output for {seconds} seconds"))
    }

    fn unreachable(&self, detail: &str) -> ScmError {
        ScmError::Network {
            source_name: self.name.clone(),
            tries: 1,
            detail: detail.to_owned(),
        }
    }
}
