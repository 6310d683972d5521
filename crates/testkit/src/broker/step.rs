//! What the broker does about one order, and what it does about all of them.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// A tag of an order that starts so is a step of its script: the first send takes the first one.
pub(super) const STEP_TAG: &str = "broker:";

/// What the broker does about one send, once the gate is open.
///
/// Written as in a tag: `broker:hang`, `broker:partial=0.04`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Step {
    /// Executes the order and answers so.
    Fill,
    /// Executes this much of it and answers so; of a payment, under this reference.
    Partial(String),
    /// Answers that it is done, with nothing executed; of a payment, paid under no reference.
    Nothing,
    /// Executes it after this long.
    Slow(Duration),
    /// Answers that it will not execute this order.
    Reject,
    /// Answers with this status, nothing executed.
    Refuse(u16),
    /// Answers with this status and everything it was sent, credentials included.
    Blab(u16),
    /// Answers 429 with this many seconds of `Retry-After`.
    Busy(u32),
    /// Never answers, nothing executed.
    Hang,
    /// Closes the connection, nothing executed.
    Drop,
    /// Answers 200 with something that is not JSON, nothing executed.
    Garbage,
    /// Executes it and never answers.
    ExecuteHang,
    /// Executes it and closes the connection: the reply is lost.
    ExecuteDrop,
    /// Executes it and answers 200 with something that is not JSON.
    ExecuteGarbage,
}

impl Step {
    /// The tag that makes an order bring this step with it.
    pub fn tag(&self) -> String {
        format!("{STEP_TAG}{self}")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fill => f.write_str("fill"),
            Self::Partial(qty) => write!(f, "partial={qty}"),
            Self::Nothing => f.write_str("nothing"),
            Self::Slow(time) => write!(f, "slow={}", time.as_millis()),
            Self::Reject => f.write_str("reject"),
            Self::Refuse(status) => write!(f, "refuse={status}"),
            Self::Blab(status) => write!(f, "blab={status}"),
            Self::Busy(seconds) => write!(f, "busy={seconds}"),
            Self::Hang => f.write_str("hang"),
            Self::Drop => f.write_str("drop"),
            Self::Garbage => f.write_str("garbage"),
            Self::ExecuteHang => f.write_str("execute-hang"),
            Self::ExecuteDrop => f.write_str("execute-drop"),
            Self::ExecuteGarbage => f.write_str("execute-garbage"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, value) = text.split_once('=').unwrap_or((text, ""));
        let number = || {
            let parsed = value.parse::<u32>();
            parsed.map_err(|error| format!("{text:?}: {error}"))
        };
        Ok(match word {
            "fill" => Self::Fill,
            "partial" => Self::Partial(value.to_owned()),
            "nothing" => Self::Nothing,
            "slow" => Self::Slow(Duration::from_millis(number()?.into())),
            "reject" => Self::Reject,
            "refuse" => Self::Refuse(u16::try_from(number()?).map_err(|e| e.to_string())?),
            "blab" => Self::Blab(u16::try_from(number()?).map_err(|e| e.to_string())?),
            "busy" => Self::Busy(number()?),
            "hang" => Self::Hang,
            "drop" => Self::Drop,
            "garbage" => Self::Garbage,
            "execute-hang" => Self::ExecuteHang,
            "execute-drop" => Self::ExecuteDrop,
            "execute-garbage" => Self::ExecuteGarbage,
            _ => return Err(format!("no such step: {text:?}")),
        })
    }
}

impl TryFrom<String> for Step {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Step> for String {
    fn from(step: Step) -> Self {
        step.to_string()
    }
}

/// How the broker treats all orders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerManner {
    /// What it does when an order's own script is empty or used up.
    pub otherwise: Step,
    /// Whether orders are acted on; otherwise they wait, taken but untouched.
    pub is_open: bool,
    /// Whether a key is executed once only.
    pub dedupes: bool,
    /// Whether it answers status requests.
    pub answers_queries: bool,
}

impl Default for BrokerManner {
    fn default() -> Self {
        Self {
            otherwise: Step::Fill,
            is_open: true,
            dedupes: true,
            answers_queries: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_what_it_writes() {
        let steps = [
            Step::Fill,
            Step::Partial("0.04".into()),
            Step::Nothing,
            Step::Slow(Duration::from_millis(20)),
            Step::Reject,
            Step::Refuse(503),
            Step::Blab(500),
            Step::Busy(2),
            Step::Hang,
            Step::Drop,
            Step::Garbage,
            Step::ExecuteHang,
            Step::ExecuteDrop,
            Step::ExecuteGarbage,
        ];
        for step in steps {
            assert_eq!(step.to_string().parse(), Ok(step.clone()), "{step}");
            assert!(step.tag().len() <= 32, "{step} does not fit a tag");
        }
        assert!("dance".parse::<Step>().is_err());
        assert!("slow=soon".parse::<Step>().is_err());
    }
}
