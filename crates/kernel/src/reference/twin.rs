//! Deliberately broken variants. A suite that has never failed is no evidence: the conformance
//! suite runs over each of these and must fail.

use std::time::Duration;

use uuid::Uuid;

use super::Reference;
use crate::{Report, Token};

/// The flaw of a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// An expiry counts against every message of a lease, not only against one that was alone.
    NoSoloRule,
    /// A token is not compared: a settle acts for the current lease of its message.
    NoTokenCheck,
    /// Tokens are derived from the fence, so a failover that loses leases issues them again.
    CounterToken,
    /// Leases are judged by the caller's clock, which is wrong by this much.
    WorkerClock(Duration),
}

impl Reference {
    /// The same store with a flaw.
    pub fn with_flaw(self, flaw: Flaw) -> Self {
        Self {
            flaw: Some(flaw),
            ..self
        }
    }

    /// The flaw, if any.
    pub fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    /// The token the next lease gets, under `CounterToken`.
    pub(crate) fn counter_token(&self) -> Option<Token> {
        let next = self.last_fence as u64 + 1;
        (self.flaw == Some(Flaw::CounterToken)).then(|| Token(Uuid::from_u64_pair(0, next)))
    }

    /// The token a settle acts under: with `NoTokenCheck`, that of the message's current lease.
    pub(crate) fn effective_token(&self, token: Token, reports: &[Report]) -> Token {
        let unchecked = self.flaw == Some(Flaw::NoTokenCheck);
        let Some(report) = reports.first().filter(|_| unchecked) else {
            return token;
        };
        let holder = self
            .leases
            .values()
            .find(|l| l.entries.iter().any(|e| e.id == report.id));
        holder.map_or(token, |lease| lease.token)
    }

    pub(super) fn counts_alone(&self, alone: bool) -> bool {
        alone || self.flaw == Some(Flaw::NoSoloRule)
    }
}
