//! What a client may ask: OrderRequest v1.1.

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
            /// As in requests.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The value of this word, if there is one.
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
    /// How long an order stands at the broker.
    TimeInForce {
        /// Immediate or cancel: what cannot be had at once is dropped.
        Ioc = "IOC",
        /// Fill or kill: all of it or nothing.
        Fok = "FOK",
        /// Good till cancelled.
        Gtc = "GTC",
    }
}

/// What a client is willing to risk. The broker is told; nothing here acts on it.
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

/// An order as the client asked for it, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderRequest {
    /// What to trade.
    pub instrument: String,
    /// Buy or sell.
    pub side: Side,
    /// How much, before rounding.
    pub qty: Amount,
    /// The limit, before rounding; none: at the market.
    pub price: Option<Amount>,
    /// How long it stands; immediate or cancel where the client did not say.
    pub time_in_force: TimeInForce,
    /// The client's own words for it.
    pub tags: Vec<String>,
    /// What the client is willing to risk.
    pub risk_constraints: Option<RiskConstraints>,
    /// The client's trace.
    pub trace_id: Option<String>,
    /// The key in the body.
    pub idempotency_key: OrderKey,
    /// The client's name for the order.
    pub order_id: Option<String>,
    /// When the client asked, by its own clock.
    pub requested_at: Option<Timestamp>,
    /// `sha256:` and the digest of what was sent.
    pub digest: String,
}

/// What a request is checked against.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What may be ordered.
    pub instruments: Instruments,
    /// The widest spread where the client says nothing.
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

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where: `qty`, `tags.3`, `risk_constraints.max_dd`, or `body` for the whole.
    pub field: String,
    /// What is wrong. Never shows the value.
    pub problem: String,
    /// What would be right.
    pub accepted: String,
}

/// Everything that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", summary(.problems))]
pub struct InvalidRequest {
    /// At least one, by field in the order of the contract.
    pub problems: Vec<Problem>,
    /// The key in the body as far as it can be read, so that a mismatch with the header can be
    /// told first.
    pub idempotency_key: Option<String>,
}

fn summary(problems: &[Problem]) -> String {
    let told: Vec<String> = problems
        .iter()
        .map(|Problem { field, problem, .. }| format!("{field} {problem}"))
        .collect();
    told.join("; ")
}

impl OrderRequest {
    /// Reads and checks a request. Every bad field is named, not only the first.
    pub fn parse(body: &[u8], rules: &Rules) -> Result<Self, InvalidRequest> {
        check::read(body, Some(rules))
    }

    /// Reads a request that was accepted before: what may be ordered may have changed since, and
    /// that is no reason to drop an accepted order.
    pub fn reread(body: &[u8]) -> Result<Self, InvalidRequest> {
        check::read(body, None)
    }
}

#[cfg(test)]
mod tests;
