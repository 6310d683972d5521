//! `consign enqueue`: one message, or JSON lines from standard input.

mod lines;

use std::{
    io::{self, IsTerminal, Read},
    time::Duration,
};

use clap::Args;
use consign_kernel::{Due, NewMessage, Payload, QueueName, Receipt};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    arguments::{duration, header, time},
    context::Context,
    failure::{Exit, Failure},
};

const AFTER_HELP: &str = "\
Without PAYLOAD, every line of standard input is a message:
  {\"payload\": …, \"queue\"?, \"key\"?, \"group\"?, \"headers\"?, \"delay_ms\"? or \"at\"?, \"expires_at\"?}
Lines are enqueued 500 at a time; at a bad line it stops and prints its number and how many were enqueued.";

/// Enqueue one message, or JSON lines from standard input.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Enqueue {
    /// The message as JSON, or - to read it from standard input
    payload: Option<String>,
    /// The queue; also of lines that name none
    #[arg(long, default_value = "default")]
    queue: QueueName,
    /// Idempotency key: repeating it returns the first message
    #[arg(long, requires = "payload")]
    key: Option<String>,
    /// Ordering key, honoured in ordered queues
    #[arg(long, requires = "payload")]
    group: Option<String>,
    /// Delay before the first attempt, such as 30s
    #[arg(long, requires = "payload", value_parser = duration, allow_hyphen_values = true, default_value = "0s")]
    delay: Duration,
    /// The time of the first attempt instead, such as 2026-12-24T18:00:00+01:00; at once if it has passed
    #[arg(long, requires = "payload", conflicts_with = "delay", value_parser = time)]
    at: Option<Timestamp>,
    /// A time after that: from then on it is not sent any more and dies
    #[arg(long, requires = "payload", value_parser = time)]
    expires_at: Option<Timestamp>,
    /// A header of the message; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "payload", value_parser = header)]
    headers: Vec<(String, Value)>,
}

impl Enqueue {
    pub(crate) async fn run(mut self, context: &Context) -> Result<Exit, Failure> {
        let Some(payload) = self.payload.take() else {
            return lines::run(context, self.queue).await;
        };
        let message = NewMessage {
            queue: self.queue,
            key: self.key,
            group: self.group,
            payload: parse_payload(payload)?,
            headers: self.headers.into_iter().collect(),
            due: Due::new(0, self.delay, self.at)?,
            expires_at: self.expires_at,
        };
        let answers = context.creating().store().await?.enqueue(&[message]).await;
        // There is only one.
        let unnumbered = |text: String| text.trim_start_matches("message 0: ").to_owned();
        let answers = answers.map_err(|error| Failure::from(error).map_message(unnumbered))?;
        let enqueued = answers
            .first()
            .expect("invariant: one answer for one message");
        report(context, enqueued)?;
        Ok(Exit::Fine)
    }
}

pub(super) fn parse_payload(argument: String) -> Result<Payload, Failure> {
    let (text, place) = if argument == "-" {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| Failure::refused(format!("standard input cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Failure::refused(format!("standard input is not UTF-8 from byte {at} on"))
        })?;
        (text, "standard input")
    } else {
        (argument, "the payload")
    };
    Payload::parse(&text).map_err(|error| {
        if !error.is_syntax {
            return Failure::from(error.named("payload"));
        }
        let text = text.trim();
        let is_meant_as_json = text.starts_with(|c: char| "{[\"-0123456789".contains(c));
        let hint = match text.parse::<QueueName>() {
            _ if is_meant_as_json => String::new(),
            Ok(queue) => format!(
                "; a text needs quotes of its own, as in '\"{queue}\"'; a queue is named by --queue {queue}"
            ),
            Err(_) => "; a text needs quotes of its own, as in '\"hello\"'".to_owned(),
        };
        Failure::refused(format!("{place} is not JSON: {error}{hint}"))
    })
}

fn report(context: &Context, enqueued: &Receipt) -> Result<(), Failure> {
    let Receipt {
        id,
        duplicate,
        state,
    } = enqueued;
    if context.out.is_json() {
        context.out.json(enqueued)?;
    } else if *duplicate {
        context.out.line(format_args!(
            "message {id} had this key already ({state}); nothing was enqueued"
        ))?;
    } else {
        context.out.line(format_args!("message {id} is {state}"))?;
    }
    Ok(())
}

/// Without a payload, `consign enqueue` on a terminal would wait without a sign.
fn refuse_terminal() -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        Err(Failure::usage(
            "no payload: give one as JSON, or pipe JSON lines in; see `consign enqueue --help`",
        ))
    } else {
        Ok(())
    }
}
