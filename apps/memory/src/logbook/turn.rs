//! Turns of writers.

use std::time::Duration;

/// How long whoever found a turn held is next, unless they ask again.
pub const TURN_PLACE: Duration = Duration::from_millis(500);

/// What became of a turn that somebody wants to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKept {
    /// It is theirs for longer.
    Held,
    /// It is theirs for longer, and somebody else is next.
    Wanted,
    /// It is somebody else's, or nobody's.
    Lost,
}
