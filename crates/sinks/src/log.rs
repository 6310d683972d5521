//! The log sink: a line of JSON for each message, to standard output or a file.

mod file;

use std::{
    io::Write,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use consign_kernel::{Outcome, Payload, QueueName};
use consign_worker::{About, Delivery, Sink, Verdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::file::{LogFile, WriteError};
use crate::{SinkError, config::Kind};

/// `kind = "log"`: each message is a line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The file to append to; standard output by default.
    pub path: Option<PathBuf>,
    /// Whether payloads and headers are written.
    pub payload: bool,
    /// Whether each line is on the disk before its message counts as delivered.
    pub sync: bool,
}

impl Kind for LogConfig {
    const SECRETS: &'static [&'static str] = &[];

    async fn build(&self, _queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        if self.path.is_none() && self.sync {
            let why = "requires `path`";
            return Err(SinkError::invalid("sync", why));
        }
        let destination = match &self.path {
            Some(path) => path.display().to_string(),
            None => "standard output".to_owned(),
        };
        let file = self.path.clone().map(|path| LogFile::new(path, self.sync));
        Ok(Arc::new(Log {
            destination,
            payload: self.payload,
            file: file.map(|file| Arc::new(Mutex::new(file))),
        }))
    }
}

#[derive(Debug)]
struct Log {
    destination: String,
    payload: bool,
    /// None for standard output.
    file: Option<Arc<Mutex<LogFile>>>,
}

/// The fields of a line.
#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    queue: &'a QueueName,
    message_id: i64,
    idempotency_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    attempt_no: u32,
    fence: i64,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Payload>,
}

impl Log {
    /// JSON writes line ends inside texts as `\n`, so a message is always one line.
    fn line(&self, delivery: &Delivery) -> Vec<u8> {
        let message = &*delivery.message;
        let line = Line {
            at: Timestamp::now(),
            queue: &message.queue,
            message_id: message.id.0,
            idempotency_key: delivery.idempotency_key(),
            group: message.group.as_deref(),
            attempt_no: delivery.attempt_no,
            fence: delivery.fence.0,
            created_at: message.created_at,
            headers: self.payload.then_some(&message.headers),
            payload: self.payload.then_some(&message.payload),
        };
        let mut line = serde_json::to_vec(&line).expect("invariant: JSON values serialise");
        line.push(b'\n');
        line
    }
}

#[async_trait]
impl Sink for Log {
    fn kind(&self) -> &'static str {
        "log"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let line = self.line(delivery);
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || match file {
            Some(file) => {
                // A panic of another writer leaves nothing half done that the next line could not
                // be written after.
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.append(&line)
            }
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(&line)
                    .and_then(|()| out.flush())
                    .map_err(WriteError::Write)
            }
        });
        match written.await {
            Ok(Ok(())) => Verdict::delivered(),
            Ok(Err(error)) => failed(&error),
            Err(join) => {
                let detail = format!("the writer did not finish: {join}");
                Verdict::failed(Outcome::Uncertain, About::Sink, "log_write_failed", detail)
            }
        }
    }
}

fn failed(error: &WriteError) -> Verdict {
    let (outcome, code) = match error {
        WriteError::Open(_) => (Outcome::Retry, "log_open_failed"),
        WriteError::Write(_) => (Outcome::Retry, "log_write_failed"),
        // The line is written, but may be lost in a power failure.
        WriteError::Sync(_) => (Outcome::Uncertain, "log_sync_failed"),
    };
    Verdict::failed(outcome, About::Sink, code, error.to_string())
}
