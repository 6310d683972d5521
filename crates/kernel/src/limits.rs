//! Hard limits, the same in every store.
//!
//! Limits that a team may change are queue policy; these protect the shape of the tables.

use std::time::Duration;

use crate::error::{Error, Result};

/// Longest batch in ids: a ready row stays below PostgreSQL's TOAST threshold and is cheap to split.
pub const BATCH_MESSAGES_MAX: usize = 200;
/// Most messages one claim may lease.
pub const LEASE_MESSAGES_MAX: u32 = 1_000;
/// Longest lease.
pub const LEASE_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Most bytes of messages that a queue can allow in one claim.
pub const CLAIM_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Shortest part of a lease's token by which an operator can name the lease.
pub const TOKEN_PREFIX_MIN: usize = 4;
/// Longest idempotency key or group, in bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// Longest owner name, in bytes.
pub const OWNER_BYTES_MAX: usize = 256;
/// Largest headers object, as compact JSON.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;
/// Longest outcome code; longer ones are cut.
pub const CODE_BYTES_MAX: usize = 128;
/// Longest outcome detail; longer ones are cut, because a verbose sink must not fail a settle.
pub const DETAIL_BYTES_MAX: usize = 4_096;
/// Longest rest before a try.
pub const DELAY_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// How far ahead the time of a message's first try may be. Ten years: an absolute time is a date
/// of the business, which may be years away; a longer one is a mistake in the unit.
pub const AT_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);
/// Longest cron expression, in bytes.
pub const CRON_BYTES_MAX: usize = 256;
/// Longest name of a time zone, in bytes.
pub const TIME_ZONE_BYTES_MAX: usize = 64;
/// Largest payload of a schedule: a step may enqueue [`TICKS_MAX`] of them in one transaction.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// Most ticks of a schedule that one step enqueues a message for.
pub const TICKS_MAX: usize = 100;
/// Most missed ticks that a schedule can enqueue a message each for.
pub const MISSED_MAX: u32 = 1_000;
/// Most entries of a list in one answer; a larger limit is cut to this.
pub const PAGE_ENTRIES_MAX: u32 = 1_000;
/// Deepest payload and result: what is nested further cannot be read back by common JSON parsers.
pub const PAYLOAD_DEPTH_MAX: usize = 100;
/// Longest payload that a queue can allow, as canonical JSON.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Rejects a name of an owner or a program that is empty, too long or could steer a terminal or a log.
pub(crate) fn validate_name(what: &'static str, text: &str, bytes_max: usize) -> Result<()> {
    if text.trim().is_empty() || text.len() > bytes_max || text.chars().any(char::is_control) {
        let why = format!("must be 1 to {bytes_max} bytes without control characters");
        return Err(Error::out_of_bounds(what, crate::quoted(text), why));
    }
    Ok(())
}
