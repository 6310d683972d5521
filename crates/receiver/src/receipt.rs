//! Repetitions and older fences, recognised in the receiver's own transaction.

/// Creates the table in the receiver's PostgreSQL. One table per sender: fences of several databases
/// do not compare.
pub const CREATE_TABLE: &str = include_str!("../sql/create_table.sql");

/// Records a request: the webhook's id as `$1` and its fence as `$2`, 0 if it has none. The one
/// column of the row that it returns, if any, is for [`Receipt::from_times`].
///
/// Of two equal requests at once, the second waits here until the first is committed.
pub const RECORD: &str = include_str!("../sql/record.sql");

/// What a request is to a receiver that recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Apply it, in the same transaction.
    First,
    /// Applied before: answer as then, and apply nothing.
    Repeated,
    /// From a worker that lost its lease: reject it, for example with 409.
    Stale,
}

impl Receipt {
    /// What the row of [`RECORD`] means; `None` where it returned no row.
    pub fn from_times(times: Option<i64>) -> Self {
        match times {
            None => Self::Stale,
            Some(1) => Self::First,
            Some(_) => Self::Repeated,
        }
    }
}
