//! Which messages can be erased.

use crate::{ErasureAnswer, StateKind};

/// A message, as far as it matters for whether it can be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasureCandidate {
    /// State when it was read.
    pub state: StateKind,
    /// Whether it was erased before.
    pub is_erased: bool,
    /// Whether it is the head of its group.
    pub is_head: bool,
    /// Whether its queue belongs to an app that cannot erase it.
    pub is_of_app: bool,
    /// Whether its app needs it, whatever the time.
    pub is_needed: bool,
}

impl ErasureCandidate {
    /// Why it is not erased; `None` if it is to be.
    pub fn refusal(self) -> Option<ErasureAnswer> {
        match self.state {
            _ if self.is_erased => Some(ErasureAnswer::AlreadyErased),
            _ if self.is_of_app => Some(ErasureAnswer::AppQueue),
            StateKind::Dead if self.is_head => Some(ErasureAnswer::BlocksGroup),
            state if !state.is_finished() => Some(ErasureAnswer::NotFinal { state }),
            _ if self.is_needed => Some(ErasureAnswer::Needed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_final_messages_that_no_group_waits_for_are_erased() {
        for state in StateKind::ALL {
            let message = ErasureCandidate {
                state,
                is_erased: false,
                is_head: false,
                is_of_app: false,
                is_needed: false,
            };
            let expected = match state {
                StateKind::Delivered | StateKind::Dead | StateKind::Discarded => None,
                state => Some(ErasureAnswer::NotFinal { state }),
            };
            assert_eq!(message.refusal(), expected);
            let again = ErasureCandidate {
                is_erased: true,
                ..message
            };
            assert_eq!(again.refusal(), Some(ErasureAnswer::AlreadyErased));
            let of_app = ErasureCandidate {
                is_of_app: true,
                ..message
            };
            assert_eq!(of_app.refusal(), Some(ErasureAnswer::AppQueue));
        }
        let head = ErasureCandidate {
            state: StateKind::Dead,
            is_erased: false,
            is_head: true,
            is_of_app: false,
            is_needed: true,
        };
        assert_eq!(head.refusal(), Some(ErasureAnswer::BlocksGroup));
        let needed = ErasureCandidate {
            is_head: false,
            ..head
        };
        assert_eq!(needed.refusal(), Some(ErasureAnswer::Needed));
    }
}
