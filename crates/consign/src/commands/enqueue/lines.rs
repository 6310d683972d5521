//! JSON lines from standard input, in batches.

use std::{
    io::{self, BufRead, Read},
    time::Duration,
};

use consign_kernel::{
    Certainty, Due, NewMessage, Payload, QueueName, Receipt, Store, exact_headers,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::refuse_terminal;
use crate::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, count},
    progress::Progress,
};

/// One transaction each: large enough to be fast, small enough to be soon.
const BATCH_MESSAGES: usize = 500;
/// A batch of large payloads is sent earlier, so that memory stays bounded.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// Twice the largest payload any queue may allow.
const LINE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// A line of the input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    queue: Option<QueueName>,
    key: Option<String>,
    group: Option<String>,
    #[serde(borrow)]
    payload: &'l RawValue,
    #[serde(default, deserialize_with = "exact_headers")]
    headers: Map<String, Value>,
    #[serde(default)]
    delay_ms: u64,
    at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
}

/// Enqueues every line; those that name no queue go to `queue`.
pub(super) async fn run(context: &Context, queue: QueueName) -> Result<Exit, Failure> {
    refuse_terminal()?;
    let store = context.creating().store().await?;
    let mut sender = Sender {
        store: &*store,
        out: context.out,
        progress: Progress::new(None, context.out.is_json()),
        batch: Vec::new(),
        batch_bytes: 0,
        enqueued: 0,
        duplicates: 0,
    };
    let mut input = io::stdin().lock();
    for number in 1.. {
        let line = match read_line(&mut input, number) {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(bad) => return Err(sender.stop_before(bad).await),
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        match parse_line(&line, number, &queue) {
            Ok(message) => sender.add(number, message).await?,
            Err(bad) => return Err(sender.stop_before(bad).await),
        }
    }
    sender.flush().await?;
    sender.finish()
}

fn read_line(input: &mut impl BufRead, number: u64) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    input
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .map_err(|error| Failure::refused(format!("line {number}: cannot be read: {error}")))?;
    if line.len() as u64 == LINE_BYTES_MAX {
        let mib = LINE_BYTES_MAX / (1024 * 1024);
        let message = format!("line {number}: is longer than {mib} MiB");
        return Err(Failure::refused(message));
    }
    Ok((!line.is_empty()).then_some(line))
}

fn parse_line(line: &[u8], number: u64, queue: &QueueName) -> Result<NewMessage, Failure> {
    let text = std::str::from_utf8(line).map_err(|error| {
        let at = error.valid_up_to();
        Failure::refused(format!("line {number}: is not UTF-8 from byte {at} on"))
    })?;
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| {
        // Every line is line 1 to the parser; its own number would mislead.
        let error = error.to_string().replace(" at line 1 column ", ", column ");
        Failure::refused(format!("line {number}: {error}"))
    })?;
    let payload = Payload::parse(line.payload.get()).map_err(|error| {
        let error = error.named("payload");
        Failure::from(error).map_message(|text| format!("line {number}: {text}"))
    })?;
    let due = Due::new(0, Duration::from_millis(line.delay_ms), line.at).map_err(|error| {
        let named =
            |text: String| format!("line {number}: {}", text.trim_start_matches("message 0: "));
        Failure::from(error).map_message(named)
    })?;
    Ok(NewMessage {
        queue: line.queue.unwrap_or_else(|| queue.clone()),
        key: line.key,
        group: line.group,
        payload,
        headers: line.headers,
        due,
        expires_at: line.expires_at,
    })
}

struct Sender<'a> {
    store: &'a dyn Store,
    out: Output,
    progress: Progress,
    /// Messages not sent yet, with the lines they came from.
    batch: Vec<(u64, NewMessage)>,
    batch_bytes: usize,
    enqueued: u64,
    duplicates: u64,
}

impl Sender<'_> {
    async fn add(&mut self, number: u64, message: NewMessage) -> Result<(), Failure> {
        self.batch_bytes += message.payload.as_str().len();
        self.batch.push((number, message));
        if self.batch.len() >= BATCH_MESSAGES || self.batch_bytes >= BATCH_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        self.batch_bytes = 0;
        let (numbers, messages): (Vec<u64>, Vec<NewMessage>) = self.batch.drain(..).unzip();
        let Some((first, last)) = numbers.first().zip(numbers.last()) else {
            return Ok(());
        };
        match self.store.enqueue(&messages).await {
            Ok(answers) => self.record(&numbers, &answers),
            Err(error) if error.is_retryable() => {
                let unknown = error.certainty() == Certainty::Unknown;
                let fate = if unknown { "may have been" } else { "were not" };
                let lines = format!("lines {first} to {last} {fate} enqueued");
                Err(self.with_progress(
                    Failure::from(error).map_message(|text| format!("{text}; {lines}")),
                ))
            }
            // The batch was refused as a whole and nothing of it written: one by one, the refusal
            // finds its line, and the lines before it are sent.
            Err(_) => self.one_by_one(&numbers, messages).await,
        }
    }

    async fn one_by_one(
        &mut self,
        numbers: &[u64],
        messages: Vec<NewMessage>,
    ) -> Result<(), Failure> {
        for (number, message) in numbers.iter().zip(messages) {
            match self.store.enqueue(&[message]).await {
                Ok(answers) => self.record(&[*number], &answers)?,
                Err(error) => {
                    let named = |text: String| {
                        let text = text.trim_start_matches("message 0: ");
                        format!("line {number}: {text}")
                    };
                    return Err(self.with_progress(Failure::from(error).map_message(named)));
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, numbers: &[u64], answers: &[Receipt]) -> Result<(), Failure> {
        assert_eq!(numbers.len(), answers.len(), "one answer for each message");
        for (number, answer) in numbers.iter().zip(answers) {
            if answer.duplicate {
                self.duplicates += 1
            } else {
                self.enqueued += 1
            }
            if self.out.is_json() {
                let Receipt {
                    id,
                    duplicate,
                    state,
                } = answer;
                self.out.json(
                    &json!({"line": number, "id": id, "duplicate": duplicate, "state": state}),
                )?;
            }
        }
        self.progress.add(answers.len());
        Ok(())
    }

    /// Enqueues what came before a bad line, then reports it.
    async fn stop_before(mut self, bad: Failure) -> Failure {
        match self.flush().await {
            Ok(()) => self.with_progress(bad),
            Err(worse) => worse,
        }
    }

    fn with_progress(&self, failure: Failure) -> Failure {
        failure.map_message(|message| {
            let done = self.done();
            format!("{message}. {done} before it; nothing after it was")
        })
    }

    fn done(&self) -> String {
        let verb = if self.enqueued == 1 { "was" } else { "were" };
        let mut text = format!("{} {verb} enqueued", count(self.enqueued, "message"));
        if self.duplicates > 0 {
            text.push_str(&format!(" ({} had their keys already)", self.duplicates));
        }
        text
    }

    fn finish(self) -> Result<Exit, Failure> {
        self.progress.clear();
        if !self.out.is_json() {
            self.out.line(self.done())?;
        }
        Ok(Exit::Fine)
    }
}
