//! The beginning of a write: what is asked and written before a memory server is called.

use std::sync::Arc;

use super::{Found, Kept, NewAudit, Settings};
use crate::NewMemory;

/// A write that was decided about.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// The pending audit, with the space and the hash of what is written; `backend` in its JSON says
    /// where to.
    pub audit: NewAudit,
    /// What the decision was made by, if it was read before: it must hold still. Absent: it was read
    /// a moment ago.
    pub settings: Option<Arc<Settings>>,
    /// Who was taken for a user without asking, and must be an active one.
    pub user_id: Option<String>,
    /// Whether a memory that is stored already is answered instead.
    pub is_deduplicated: bool,
    /// The memory, if it is to be kept in the logbook itself: then it is kept, and its audit is
    /// written as ended, in the same transaction.
    pub kept: Option<NewMemory>,
}

/// How a write begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Its audit is pending.
    Pending {
        /// Whether the backend may have it all the same: as [`super::Logbook::may_be_stored`] says,
        /// or because a row of the outbox waits for it or was given up. Ask before storing.
        in_doubt: bool,
    },
    /// It is done: the memory is kept, and its audit says so.
    Kept(Kept),
    /// It is stored already; nothing was written.
    Known(Found),
    /// The settings are others by now, or whoever asks is no user; nothing was written.
    Stale,
}
