//! Attempts: what happened to one message in one lease.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CODE_BYTES_MAX, DELAY_MAX, DETAIL_BYTES_MAX, Fence, MessageId, StateKind, Token, codes,
    payload::{shallow, without_nul},
};

/// Characters of a detail in a sentence; the history has all of it.
const DETAIL_SHOWN: usize = 200;

/// A worker's outcome for a message in its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The sink has it. Final.
    Delivered,
    /// It failed and may be tried again.
    Retry,
    /// It failed and trying again is pointless.
    Dead,
    /// It may or may not have been delivered.
    Uncertain,
}

/// The outcome recorded in an attempt row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Reported delivered.
    Delivered,
    /// Reported as failed, to be retried.
    Retry,
    /// Reported as failed for good.
    Dead,
    /// Reported as uncertain, or the lease ended after the transport call had begun.
    Uncertain,
    /// The lease ended before the transport call had begun.
    Expired,
}

impl AttemptOutcome {
    /// Its name in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Retry => "retry",
            Self::Dead => "dead",
            Self::Uncertain => "uncertain",
            Self::Expired => "expired",
        }
    }

    /// The outcome a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Delivered,
            Self::Retry,
            Self::Dead,
            Self::Uncertain,
            Self::Expired,
        ]
        .into_iter()
        .find(|outcome| outcome.as_str() == word)
    }

    /// The reported outcome that leads to this one; none for outcomes that only a store records.
    pub fn reported(self) -> Option<Outcome> {
        match self {
            Self::Delivered => Some(Outcome::Delivered),
            Self::Retry => Some(Outcome::Retry),
            Self::Dead => Some(Outcome::Dead),
            Self::Uncertain => Some(Outcome::Uncertain),
            Self::Expired => None,
        }
    }
}

impl From<Outcome> for AttemptOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Delivered => Self::Delivered,
            Outcome::Retry => Self::Retry,
            Outcome::Dead => Self::Dead,
            Outcome::Uncertain => Self::Uncertain,
        }
    }
}

/// One message's outcome in a settle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// What happened.
    pub outcome: Outcome,
    /// A short word for programs, such as `http_503`.
    pub code: Option<String>,
    /// A sentence for people.
    pub detail: Option<String>,
    /// What the sink answered, if worth keeping.
    pub result: Option<Value>,
    /// Overrides the queue's retry schedule, for example from `Retry-After`.
    pub retry_in: Option<Duration>,
}

impl Report {
    /// A report with nothing but an outcome.
    pub fn new(id: MessageId, outcome: Outcome) -> Self {
        Self {
            id,
            outcome,
            code: None,
            detail: None,
            result: None,
            retry_in: None,
        }
    }

    /// The report of a delivered message.
    pub fn delivered(id: MessageId) -> Self {
        Self::new(id, Outcome::Delivered)
    }

    /// The report of a failure to be retried.
    pub fn retry(id: MessageId, code: impl Into<String>) -> Self {
        Self {
            code: Some(code.into()),
            ..Self::new(id, Outcome::Retry)
        }
    }

    /// The report cut to what every store can keep.
    ///
    /// A verbose sink must not cost the outcome: long text is cut, U+0000 replaced, a result that is
    /// nested too deeply kept as text.
    pub fn bounded(self) -> Self {
        Self {
            code: self.code.map(|code| cut(own_code(code), CODE_BYTES_MAX)),
            detail: self.detail.map(|detail| cut(detail, DETAIL_BYTES_MAX)),
            result: self.result.map(shallow).map(without_nul),
            retry_in: self.retry_in.map(|delay| delay.min(DELAY_MAX)),
            ..self
        }
    }
}

/// Reserves the code of an ended lease for the store: it distinguishes a settle that is repeated
/// after its lease was lost from one that had been recorded.
fn own_code(code: String) -> String {
    if code == codes::LEASE_EXPIRED {
        format!("reported_{code}")
    } else {
        code
    }
}

pub(crate) fn cut(text: String, bytes_max: usize) -> String {
    let mut text = if text.contains('\0') {
        text.replace('\0', "\u{FFFD}")
    } else {
        text
    };
    let end = text.floor_char_boundary(bytes_max);
    text.truncate(end);
    text
}

/// An attempt as stored. Never updated, never deleted by the engine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// Number that the store gave the message; never reused.
    pub message_id: MessageId,
    /// 1, 2, 3 … without gaps.
    pub attempt_no: u32,
    /// What happened.
    pub outcome: AttemptOutcome,
    /// Who held the lease.
    pub owner: String,
    /// The lease's fence.
    pub fence: Fence,
    /// The lease's token: a permission while the lease lives, and to hand in late results afterwards.
    /// Nil to a login that may only read.
    pub token: Token,
    /// When the lease was taken.
    pub claimed_at: Timestamp,
    /// When the outcome was recorded; never before `claimed_at`.
    pub finished_at: Timestamp,
    /// A short word for programs.
    pub code: Option<String>,
    /// A sentence for people.
    pub detail: Option<String>,
    /// What the sink answered.
    pub result: Option<Value>,
    /// When the message was due again, if this attempt sent it back.
    pub next_due_at: Option<Timestamp>,
}

/// The last attempt of a message, as an explanation shows it: without the lease's token, which is a
/// permission.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LastAttempt {
    /// Also how many there are: they are numbered without gaps.
    pub attempt_no: u32,
    /// What happened.
    pub outcome: AttemptOutcome,
    /// Who held the lease.
    pub owner: String,
    /// When the outcome was recorded.
    pub finished_at: Timestamp,
    /// A short word for programs.
    pub code: Option<String>,
    /// A sentence for people.
    pub detail: Option<String>,
}

impl From<Attempt> for LastAttempt {
    fn from(attempt: Attempt) -> Self {
        Self {
            attempt_no: attempt.attempt_no,
            outcome: attempt.outcome,
            owner: attempt.owner,
            finished_at: attempt.finished_at,
            code: attempt.code,
            detail: attempt.detail,
        }
    }
}

impl LastAttempt {
    /// Its detail, as much as fits into a sentence.
    fn shown_detail(&self) -> Option<String> {
        let detail = self.detail.as_deref()?;
        let cut: String = detail.chars().take(DETAIL_SHOWN).collect();
        let dots = if cut.len() < detail.len() { "…" } else { "" };
        Some(format!("{cut}{dots}"))
    }
}

impl fmt::Display for LastAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, outcome) = (self.attempt_no, self.outcome.as_str());
        write!(f, "attempt {number} by {} ended in {outcome}", self.owner)?;
        match (self.code.clone(), self.shown_detail()) {
            (Some(code), Some(detail)) => write!(f, " ({code}: {detail})")?,
            (Some(text), None) | (None, Some(text)) => write!(f, " ({text})")?,
            (None, None) => {}
        }
        write!(f, " at {:.3}", self.finished_at)
    }
}

/// What a settle recorded about one message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordedOutcome {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// Number of the attempt row, from 1 without gaps.
    pub attempt_no: u32,
    /// The outcome in that row.
    pub outcome: AttemptOutcome,
    /// When the message is due again, if it went back.
    pub next_due_at: Option<Timestamp>,
    /// Where the message went (`Settled`), or where it is now (`AlreadySettled`).
    pub state: StateKind,
}

/// The answer to a settle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SettleAnswer {
    /// Recorded now, one entry per report, in the order of the reports.
    ///
    /// For reports that this token had settled before, the entry is the recorded result.
    Settled(Vec<RecordedOutcome>),
    /// Every report had been settled under this token before; nothing was written.
    AlreadySettled(Vec<RecordedOutcome>),
    /// The token is unknown, or its lease has expired. Nothing was written.
    LeaseLost,
    /// The lease lives but does not hold these messages. Nothing was written.
    NotInLease(Vec<MessageId>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_babbling_report_is_cut_at_a_character_and_cleaned() {
        let report = Report {
            detail: Some(format!("{}ä", "x".repeat(DETAIL_BYTES_MAX - 1))),
            code: Some("a\0b".into()),
            result: Some(serde_json::json!({"x": "\u{0}"})),
            ..Report::delivered(MessageId(1))
        };
        let bounded = Report {
            retry_in: Some(Duration::MAX),
            ..report
        }
        .bounded();
        assert_eq!(bounded.retry_in, Some(DELAY_MAX));
        assert_eq!(bounded.detail.unwrap().len(), DETAIL_BYTES_MAX - 1);
        assert_eq!(bounded.code.unwrap(), "a\u{FFFD}b");
        assert_eq!(
            bounded.result.unwrap(),
            serde_json::json!({"x": "\u{FFFD}"})
        );
    }
}
