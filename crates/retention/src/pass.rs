//! What a pass of the maintenance did.

use consign_kernel::Refusal;

/// What a pass did, and why it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Messages that left.
    pub departed: u64,
    /// Departures that were finished.
    pub departures: u32,
    /// Keys that were forgotten.
    pub keys: u64,
    /// Why it ended.
    pub end: End,
}

/// Why a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No message may leave now.
    Done,
    /// Another process has the maintenance.
    Elsewhere,
    /// The database is larger than it may be, and no more messages may leave.
    OverSize,
    /// The store refused a step.
    Refused(Refusal),
}

impl End {
    /// Its name in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Elsewhere => "elsewhere",
            Self::OverSize => "over_size",
            Self::Refused(refusal) => refusal.as_str(),
        }
    }
}
