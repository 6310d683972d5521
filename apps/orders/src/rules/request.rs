//! Order requests: OrderRequest v1.1.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Amount, Instruments, OrderKey};

mod check;
mod fields;

pub(crate) use fields::utc;

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// The value in requests.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The value of this word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Buy or sell.
    Side {
        /// Buy.
        Buy = "BUY",
        /// Sell.
        Sell = "SELL",
    }
}

words! {
    /// Time in force of an order.
    TimeInForce {
        /// Immediate or cancel: what cannot be filled at once is dropped.
        Ioc = "IOC",
        /// Fill or kill: all or nothing.
        Fok = "FOK",
        /// Good till cancelled.
        Gtc = "GTC",
    }
}

/// Risk limits of a client, forwarded to the broker; nothing here enforces them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RiskConstraints {
    /// Largest drawdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dd: Option<Amount>,
    /// Most losses in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_consecutive_loss: Option<u32>,
    /// Widest spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_spread: Option<Amount>,
}

/// A validated request.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderRequest {
    /// Instrument.
    pub instrument: String,
    /// Buy or sell.
    pub side: Side,
    /// Quantity before rounding.
    pub qty: Amount,
    /// Limit before rounding; `None` for a market order.
    pub price: Option<Amount>,
    /// Time in force; IOC by default.
    pub time_in_force: TimeInForce,
    /// The client's labels.
    pub tags: Vec<String>,
    /// Risk limits of the client.
    pub risk_constraints: Option<RiskConstraints>,
    /// The client's trace id.
    pub trace_id: Option<String>,
    /// The key in the body.
    pub idempotency_key: OrderKey,
    /// The client's id of the order.
    pub order_id: Option<String>,
    /// When the client placed it, by its own clock.
    pub requested_at: Option<Timestamp>,
    /// `sha256:` and the digest of the request.
    pub digest: String,
}

/// Validation rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Tradable instruments.
    pub instruments: Instruments,
    /// Default maximum spread.
    pub max_spread: Option<Amount>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            instruments: Instruments::default(),
            max_spread: Some(Amount::scaled(2, 3)),
        }
    }
}

/// One problem of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Path: `qty`, `tags.3`, `risk_constraints.max_dd`, or `body` for the whole body.
    pub field: String,
    /// What is wrong. Never contains the value.
    pub problem: String,
    /// Valid values.
    pub accepted: String,
}

/// All problems of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", summary(.problems))]
pub struct InvalidRequest {
    /// At least one, by field in the order of the contract.
    pub problems: Vec<Problem>,
    /// The key in the body as far as it is readable, because a mismatch with the header is reported
    /// first.
    pub idempotency_key: Option<String>,
}

fn summary(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|Problem { field, problem, .. }| format!("{field} {problem}"))
        .collect();
    lines.join("; ")
}

impl OrderRequest {
    /// Parses and validates a request. Reports every invalid field, not only the first.
    pub fn parse(body: &[u8], rules: &Rules) -> Result<Self, InvalidRequest> {
        check::read(body, Some(rules))
    }

    /// Parses a request that was accepted before: a later change of the instruments does not
    /// invalidate it.
    pub fn reread(body: &[u8]) -> Result<Self, InvalidRequest> {
        check::read(body, None)
    }
}

#[cfg(test)]
mod tests;
