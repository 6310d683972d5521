//! Alerts: messages about a queue that go into another queue, at most one per reason, code and interval.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::{
    CODE_BYTES_MAX, Finding, MessageId, NewMessage, PAGE_ENTRIES_MAX, Payload, QueueName,
    attempt::cut,
    error::{Error, Result},
};

/// Header of the message of an alert, with its reason.
pub const ALERT_HEADER: &str = "consign-alert";
/// Codes of a queue and reason that have alerts of their own at a time; the others share one.
pub const ALERT_CODES_MAX: usize = 20;
/// The code that stands for all beyond that.
pub const ALERT_CODE_OTHER: &str = "other";
/// Due messages that an alert about an old queue counts at most.
pub const ALERT_MESSAGES_MAX: u64 = 10_000;
/// Leases that a queue must lose within its interval before it is worth an alert.
pub const LEASES_LOST_MIN: u64 = 3;

/// What an alert is about. In the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertReason {
    /// The circuit breaker of the queue's sink opened.
    BreakerOpen,
    /// Messages died.
    Died,
    /// Leases expired.
    LeaseLost,
    /// The oldest due message waits for longer than the queue's limit.
    QueueOld,
}

impl AlertReason {
    /// Its name in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BreakerOpen => "breaker_open",
            Self::Died => "died",
            Self::LeaseLost => "lease_lost",
            Self::QueueOld => "queue_old",
        }
    }

    /// The reason a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::BreakerOpen,
            Self::Died,
            Self::LeaseLost,
            Self::QueueOld,
        ]
        .into_iter()
        .find(|reason| reason.as_str() == word)
    }

    /// How many events it takes for an alert.
    pub fn count_min(self) -> u64 {
        match self {
            Self::LeaseLost => LEASES_LOST_MIN,
            Self::BreakerOpen | Self::Died | Self::QueueOld => 1,
        }
    }
}

impl fmt::Display for AlertReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An alert, as the payload of its message has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// What it is about.
    pub reason: AlertReason,
    /// The queue it is about.
    pub queue: QueueName,
    /// Code of the deaths, or of the failure that opened the breaker.
    pub code: Option<String>,
    /// How many events it stands for since the last alert of this reason and code; of an old queue, how
    /// many messages are due.
    pub count: u64,
    /// When the first of them happened.
    #[serde(serialize_with = "micros")]
    pub first_at: Timestamp,
    /// When the last of them happened.
    #[serde(serialize_with = "micros")]
    pub last_at: Timestamp,
    /// One of the messages: of the dead the latest, of an old queue the oldest.
    pub message_id: Option<MessageId>,
    /// Of an old queue, since when its oldest message has been due.
    #[serde(serialize_with = "optional_micros")]
    pub oldest_at: Option<Timestamp>,
    /// A sentence for people, with the command that shows more.
    pub text: String,
}

fn micros<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{at:.6}"))
}

fn optional_micros<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => micros(at, serializer),
        None => serializer.serialize_none(),
    }
}

impl Alert {
    /// The message that brings the alert into a queue.
    pub fn message(&self, alert_queue: &QueueName) -> NewMessage {
        let payload = serde_json::to_value(self).expect("invariant: an alert serialises");
        let mut message = NewMessage::new(alert_queue.clone(), Payload::from(payload));
        let reason = self.reason.as_str();
        message.headers.insert(ALERT_HEADER.into(), reason.into());
        message
    }

    /// The sentence for people, of the other fields.
    #[must_use]
    pub fn with_text(self) -> Self {
        let Self { queue, count, .. } = &self;
        let code = self.code.as_deref().unwrap_or("no code");
        let shown = code.replace(is_markup, "?");
        let text = match self.reason {
            AlertReason::Died => {
                let messages = counted(*count, "message");
                let only = match code {
                    ALERT_CODE_OTHER => String::new(),
                    code if is_word(code) => format!(" --code {code}"),
                    _ => String::new(),
                };
                format!(
                    "{messages} of queue {queue} died with {shown}: \
                     `consign ls --queue {queue} --state dead{only}`"
                )
            }
            AlertReason::LeaseLost => {
                let leases = counted(*count, "lease");
                format!(
                    "{leases} of queue {queue} expired before all messages were settled: \
                     `consign leases`, and `consign queues show {queue}` for the lease time"
                )
            }
            AlertReason::QueueOld => {
                let messages = counted(*count, "message");
                format!(
                    "queue {queue} is older than its limit, {messages} due: \
                     `consign ls --queue {queue} --state ready`"
                )
            }
            AlertReason::BreakerOpen => {
                let times = counted(*count, "time");
                format!(
                    "the circuit breaker of queue {queue} opened {times} with {shown}: its sink fails, \
                     and nothing is sent to it for a while: `consign queues show {queue}`"
                )
            }
        };
        Self { text, ..self }
    }
}

fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Whether a code can stand in a command line as it is.
fn is_word(code: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    !code.starts_with('-') && code.chars().all(is_plain)
}

/// Whether a character could end a line, a command or a word in a chat that shows the text. Codes come from
/// receivers and workers.
fn is_markup(c: char) -> bool {
    c.is_control() || matches!(c, '`' | '<' | '>')
}

/// A code as alerts have it: cut to size; empty for none.
pub fn alert_code(code: Option<&str>) -> String {
    cut(code.unwrap_or_default().to_owned(), CODE_BYTES_MAX)
}

/// What `doctor` finds about alerts that their queue does not take.
pub fn alert_finding(queue: &str, alert_queue: &str, why: &str) -> Finding {
    Finding {
        code: "alerts".to_owned(),
        what: format!("alerts of queue {queue} cannot be enqueued into queue {alert_queue}: {why}"),
        remedy: format!(
            "correct queue {alert_queue}, or choose another: `consign queues set {queue} --alert-queue NAME`"
        ),
        ids: Vec::new(),
    }
}

/// What a step of the alerts did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertStep {
    /// Records of events that were taken: as many as the step may take means that there may be more.
    pub events: u64,
    /// The alerts that were enqueued.
    pub raised: Vec<Alert>,
    /// Those that their queue did not take. What they stand for is kept for the next step.
    pub refused: Vec<RefusedAlert>,
}

/// An alert that could not be enqueued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAlert {
    /// The alert.
    pub alert: Alert,
    /// The queue that did not take it.
    pub alert_queue: QueueName,
    /// Why.
    pub failure: String,
}

impl AlertStep {
    /// Refuses a step of nothing, and one longer than a page.
    pub fn validate(limit: u32) -> Result<()> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&limit) {
            let why = format!("must be from 1 to {PAGE_ENTRIES_MAX}");
            return Err(Error::out_of_bounds("limit", limit, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(reason: AlertReason, code: Option<&str>, count: u64) -> Alert {
        Alert {
            reason,
            queue: "mail".parse().unwrap(),
            code: code.map(str::to_owned),
            count,
            first_at: Timestamp::UNIX_EPOCH,
            last_at: Timestamp::UNIX_EPOCH,
            message_id: None,
            oldest_at: None,
            text: String::new(),
        }
        .with_text()
    }

    #[test]
    fn a_text_names_the_command_that_shows_more() {
        use AlertReason::{BreakerOpen, Died, LeaseLost, QueueOld};
        for (reason, code, count, part) in [
            (
                Died,
                Some("http_500"),
                2,
                "2 messages of queue mail died with http_500",
            ),
            (Died, Some("http_500"), 2, "--state dead --code http_500`"),
            (Died, Some("a b; rm"), 1, "--state dead`"),
            (Died, Some("--all"), 1, "--state dead`"),
            (Died, Some("other"), 1, "--state dead`"),
            (LeaseLost, None, 3, "3 leases of queue mail expired"),
            (QueueOld, None, 1, "1 message due"),
            (BreakerOpen, None, 1, "opened 1 time with no code"),
            (
                BreakerOpen,
                Some("x\n`rm` <!channel>"),
                1,
                "with x??rm? ?!channel?: its sink",
            ),
            (
                Died,
                Some("a\u{85}b`"),
                1,
                "died with a?b?: `consign ls --queue mail --state dead`",
            ),
        ] {
            let text = alert(reason, code, count).text;
            assert!(text.contains(part), "{text:?} lacks {part:?}");
        }
    }

    #[test]
    fn the_payload_of_an_alert_can_be_read_back() {
        let alert = alert(AlertReason::Died, Some("gone"), 7);
        let message = alert.message(&"ops".parse().unwrap());
        let text = message.payload.as_str();
        assert!(
            text.contains(r#""first_at":"1970-01-01T00:00:00.000000Z""#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Alert>(text).unwrap(), alert);
        assert_eq!(message.headers[ALERT_HEADER], "died");
    }
}
