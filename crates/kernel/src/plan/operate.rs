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
    /// Closes dead and held messages without delivery.
    Discard,
    /// Closes ready and waiting messages before they are sent.
    Cancel,
}

impl OperatorMove {
    /// Its name in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Hold => "hold",
            Self::Unhold => "unhold",
            Self::Resolve => "resolve",
            Self::Discard => "discard",
            Self::Cancel => "cancel",
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
            | (Self::Hold | Self::Cancel, StateKind::Ready | StateKind::Waiting)
            | (Self::Discard, StateKind::Dead | StateKind::Held) => None,
            (Self::Requeue, state) => Some(Move::NotDead { state }),
            (Self::Unhold | Self::Resolve, state) => Some(Move::NotHeld { state }),
            (Self::Hold, state) => Some(Move::NotHoldable { state }),
            (Self::Discard, state) => Some(Move::NotDiscardable { state }),
            (Self::Cancel, state) => Some(Move::NotCancellable { state }),
        }
    }

    /// What closes the head of a group in this state, so that the group goes on.
    pub fn of_skip(head: StateKind) -> Self {
        match head {
            StateKind::Ready | StateKind::Waiting => Self::Cancel,
            _ => Self::Discard,
        }
    }
}
