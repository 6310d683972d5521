//! Paper broker: fills every order at once, and fails by script.
//!
//! The price of a market order is derived from the seed and the key, from 146.12000 to 146.12999:
//! the same key gets the same result in every process, so repeats need no state. A limit order is
//! filled at its limit. The time of a fill is the order's `requested_at`.
//!
//! Faults are scripted, for all orders of an instrument or by a tag of the order:
//!
//! | script | what happens |
//! |---|---|
//! | `timeout`, `timeout=2` | no answer within the time limit: always, or for the first 2 attempts |
//! | `down`, `down=2` | cannot be reached |
//! | `internal`, `internal=2` | fails with `INTERNAL_ERROR` |
//! | `rate_limited`, `rate_limited=2` | fails with `RATE_LIMITED`, retry after a second |
//! | `rejected` | rejects the order |
//! | `partial`, `partial=40` | executes 50 or 40 percent of the quantity |
//! | `slow=300` | answers after 300 milliseconds |
//!
//! As a setting: `USDJPY:timeout=1; *:slow=20`. As a tag: `paper:timeout=1`. Scripts count by the
//! attempt's number, which survives a restart; a tag wins over the setting, and an instrument's
//! script over `*`. `slow` adds to the others.

use std::{str::FromStr, time::Duration};

use async_trait::async_trait;
use ring::digest::{SHA256, digest};
use rust_decimal::Decimal;

use super::{Broker, BrokerFailure, OutgoingOrder};
use crate::{Amount, BrokerRef, ExecResult, ExecStatus, Fill, LatencyMs, Order, Reason};

/// The lowest price of market orders, in units of `PX_SCALE`.
const PX_BASE: i64 = 14_612_000;
/// Decimal places of prices.
const PX_SCALE: u32 = 5;
/// Number of possible prices.
const PX_STEPS: u64 = 1_000;

const RATE_LIMIT: Duration = Duration::from_secs(1);
const TAG: &str = "paper:";

/// The `paper` adapter.
#[derive(Clone, Debug, Default)]
pub struct Paper {
    seed: u64,
    script: Script,
}

impl Paper {
    /// A broker with prices derived from `seed` and faults from `script`.
    pub fn new(seed: u64, script: Script) -> Self {
        Self { seed, script }
    }

    /// A price in the range, always the same for the same key.
    fn market_px(&self, key: &str) -> Amount {
        let hash = digest(&SHA256, format!("{}/{key}", self.seed).as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_ref()[..8]);
        let step = u64::from_be_bytes(first) % PX_STEPS;
        Amount::scaled(PX_BASE + step.cast_signed(), PX_SCALE)
    }

    fn executed(&self, outgoing: &OutgoingOrder<'_>, percent: u32, rtt_ms: u64) -> ExecResult {
        let order = outgoing.order;
        let px = order.price.unwrap_or_else(|| self.market_px(outgoing.key));
        let part = order.qty.decimal() * Decimal::new(percent.into(), 2);
        // A hundredth of an amount may have more digits than [`Amount`] allows.
        let qty = Amount::new(part).unwrap_or(order.qty);
        ExecResult {
            status: ExecStatus::Ok,
            fills: vec![Fill {
                px,
                qty,
                ts: order.requested_at,
            }],
            avg_price: Some(px),
            executed_qty: qty,
            broker: BrokerRef {
                name: self.name().to_owned(),
                order_ref: Some(format!("paper-{}", order.order_id)),
            },
            latency_ms: LatencyMs {
                queue: 0,
                broker_rtt: rtt_ms,
                total: rtt_ms,
            },
            ..ExecResult::nothing(order.into())
        }
    }
}

#[async_trait]
impl Broker for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn takes_keys(&self) -> bool {
        true
    }

    fn has_status_query(&self) -> bool {
        false
    }

    async fn send(&self, outgoing: &OutgoingOrder<'_>) -> Result<ExecResult, BrokerFailure> {
        let faults = self.script.of(outgoing.order);
        let slow = faults.iter().find_map(|fault| match fault {
            Fault::Slow(delay) => Some(*delay),
            _ => None,
        });
        let fault = faults.iter().find(|fault| !matches!(fault, Fault::Slow(_)));
        let failing = match fault {
            Some(Fault::Failing(kind, times)) if outgoing.attempt_no <= *times => Some(*kind),
            _ => None,
        };
        let is_silent = failing == Some(Reason::BrokerTimeout);
        let delay = if is_silent {
            outgoing.timeout
        } else {
            slow.unwrap_or_default()
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay.min(outgoing.timeout)).await;
        }
        if is_silent || delay > outgoing.timeout {
            let message = format!("no answer within {} ms", outgoing.timeout.as_millis());
            return Err(BrokerFailure::new(Reason::BrokerTimeout, message));
        }
        if let Some(reason) = failing {
            let retry_in = (reason == Reason::RateLimited).then_some(RATE_LIMIT);
            let failure = BrokerFailure::new(reason, "failure scripted for the paper broker");
            return Err(failure.with_retry_in(retry_in));
        }
        let percent = match fault {
            Some(Fault::Partial(percent)) => *percent,
            _ => 100,
        };
        let rtt_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Ok(self.executed(outgoing, percent, rtt_ms))
    }
}

/// Scripted faults by instrument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(Vec<(String, Fault)>);

/// A script that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid script {line:?}; write INSTRUMENT:FAULT or *:FAULT, several with `;` between, where \
     FAULT is timeout, down, internal or rate_limited (=N for the first N attempts only), rejected, \
     partial=PERCENT or slow=MILLISECONDS"
)]
pub struct BadScript {
    /// The invalid part.
    pub line: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    /// Fails for this reason up to this attempt.
    Failing(Reason, u32),
    /// Executes this many percent.
    Partial(u32),
    /// Answers after this time.
    Slow(Duration),
}

impl Script {
    /// The faults of an order, by precedence.
    fn of(&self, order: &Order) -> Vec<Fault> {
        let tagged = order.tags.iter().filter_map(|tag| tag.strip_prefix(TAG));
        let mut faults: Vec<Fault> = tagged.filter_map(Fault::parse).collect();
        for name in [order.instrument.as_str(), "*"] {
            let own = self.0.iter().filter(|(of, _)| of == name);
            faults.extend(own.map(|(_, fault)| fault.clone()));
        }
        faults
    }
}

impl FromStr for Script {
    type Err = BadScript;

    fn from_str(text: &str) -> Result<Self, BadScript> {
        let lines = text
            .split(';')
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let read = lines.map(|line| {
            let parts = line.split_once(':');
            let script = parts.and_then(|(name, fault)| {
                Some((name.trim().to_owned(), Fault::parse(fault.trim())?))
            });
            script.ok_or_else(|| BadScript {
                line: line.to_owned(),
            })
        });
        Ok(Self(read.collect::<Result<_, _>>()?))
    }
}

impl Fault {
    fn parse(text: &str) -> Option<Self> {
        let (kind, number) = match text.split_once('=') {
            Some((kind, number)) => (kind, Some(number.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let times = number.unwrap_or(u32::MAX);
        match (kind, number) {
            ("timeout", _) => Some(Self::Failing(Reason::BrokerTimeout, times)),
            ("down", _) => Some(Self::Failing(Reason::BrokerDown, times)),
            ("internal", _) => Some(Self::Failing(Reason::InternalError, times)),
            ("rate_limited", _) => Some(Self::Failing(Reason::RateLimited, times)),
            ("rejected", _) => Some(Self::Failing(Reason::BrokerRejected, times)),
            ("partial", None) => Some(Self::Partial(50)),
            ("partial", Some(percent @ 1..=100)) => Some(Self::Partial(percent)),
            ("slow", Some(ms)) => Some(Self::Slow(Duration::from_millis(ms.into()))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
