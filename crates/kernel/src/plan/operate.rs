//! Which messages an operator can move.

use crate::{Move, StateKind};

/// What an operator does to messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorMove {
    /// Puts the dead back with fresh tries.
    Requeue,
    /// Takes ready and waiting messages out.
    Hold,
    /// Puts the held back.
    Unhold,
    /// Records the outcome of held messages.
    Resolve,
}

impl OperatorMove {
    /// Its name in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Hold => "hold",
            Self::Unhold => "unhold",
            Self::Resolve => "resolve",
        }
    }

    /// Why it cannot move a message in this state; `None` if it can.
    pub fn refusal(self, state: Option<StateKind>) -> Option<Move> {
        let Some(state) = state else {
            return Some(Move::NoSuchMessage);
        };
        match (self, state) {
            (Self::Requeue, StateKind::Dead)
            | (Self::Unhold | Self::Resolve, StateKind::Held)
            | (Self::Hold, StateKind::Ready | StateKind::Waiting) => None,
            (Self::Requeue, state) => Some(Move::NotDead { state }),
            (Self::Unhold | Self::Resolve, state) => Some(Move::NotHeld { state }),
            (Self::Hold, state) => Some(Move::NotHoldable { state }),
        }
    }
}
