//! Daily quota per client, kept in the ledger and taken from there in chunks.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use consign_kernel::Result;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use tokio::time::Instant;

use super::LimitRefusal;
use crate::{Client, Ledger};

/// Maximum clients in memory; evicting one costs it a part of a chunk.
const CLIENTS_MAX: usize = 10_000;
/// After an empty answer the ledger is read again only after this time: its clock decides when a
/// day begins, and may be behind ours.
const OVER_FOR: Duration = Duration::from_secs(60);
/// A chunk is a hundredth of the quota: the most that a process loses when it ends.
const CHUNKS: u32 = 100;

#[derive(Clone, Copy, Debug)]
struct Day {
    date: Date,
    /// Calls that the ledger granted.
    granted: u64,
    /// Calls that passed the quota.
    used: u64,
    /// Until when the ledger counts as empty.
    over_until: Option<Instant>,
}

/// Remaining quota of each client in this process.
#[derive(Debug)]
pub(super) struct Quotas {
    per_day: u32,
    chunk: u32,
    clients: Mutex<HashMap<Client, Day>>,
}

impl Quotas {
    pub(super) fn new(per_day: u32) -> Self {
        Self {
            per_day,
            chunk: (per_day / CHUNKS).max(1),
            clients: Mutex::default(),
        }
    }

    /// Counts a call without using the ledger.
    pub(super) fn count(&self, client: &Client) {
        self.with(client, today(Timestamp::now()), |day| day.used += 1);
    }

    /// Takes one call; reads the ledger only when the chunk is used up.
    pub(super) async fn take(
        &self,
        client: &Client,
        ledger: &dyn Ledger,
    ) -> Result<std::result::Result<(), LimitRefusal>> {
        let now = Timestamp::now();
        let today = today(now);
        let over = LimitRefusal {
            retry_after: until_tomorrow(now),
        };
        let lacking = self.with(client, today, |day| {
            let is_over = day.over_until.is_some_and(|until| Instant::now() < until);
            if is_over || day.used >= u64::from(self.per_day) {
                return Err(over);
            }
            day.used += 1;
            Ok(day.used.saturating_sub(day.granted))
        });
        let lacking = match lacking {
            Ok(0) => return Ok(Ok(())),
            Ok(lacking) => lacking,
            Err(over) => return Ok(Err(over)),
        };
        // What this call needs, and a chunk for those after it.
        let want = lacking.saturating_add(u64::from(self.chunk) - 1);
        let want = u32::try_from(want).unwrap_or(u32::MAX).min(self.per_day);
        let got = ledger.take_quota(client, want, self.per_day).await?;
        Ok(self.with(client, today, |day| {
            day.granted += u64::from(got);
            if got < want && day.granted < day.used {
                day.over_until = Some(Instant::now() + OVER_FOR);
            }
            if u64::from(got) >= lacking || day.granted >= day.used {
                return Ok(());
            }
            day.used = day.used.saturating_sub(1);
            Err(over)
        }))
    }

    fn with<T>(&self, client: &Client, today: Date, change: impl FnOnce(&mut Day) -> T) -> T {
        let mut clients = self.clients();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(client) {
            clients.retain(|_, day| day.date == today);
            if clients.len() >= CLIENTS_MAX
                && let Some(any) = clients.keys().next().cloned()
            {
                clients.remove(&any);
            }
        }
        let fresh = Day {
            date: today,
            granted: 0,
            used: 0,
            over_until: None,
        };
        let day = clients.entry(client.clone()).or_insert(fresh);
        if day.date != today {
            *day = fresh;
        }
        change(day)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<Client, Day>> {
        self.clients
            .lock()
            .expect("invariant: no panic under this lock")
    }
}

/// Days are UTC, as in the ledger.
fn today(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}

fn until_tomorrow(now: Timestamp) -> Duration {
    let seconds = now.as_second().rem_euclid(24 * 3_600);
    let left = 24 * 3_600 - seconds;
    Duration::from_secs(u64::try_from(left).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_at_midnight_utc() {
        for (now, left) in [
            ("2026-11-16T23:59:59.5Z", 1),
            ("2026-11-16T00:00:00Z", 86_400),
            ("2026-11-16T12:00:00Z", 43_200),
        ] {
            let now: Timestamp = now.parse().unwrap();
            assert_eq!(until_tomorrow(now), Duration::from_secs(left), "{now}");
        }
        let late: Timestamp = "2026-11-16T23:59:59Z".parse().unwrap();
        assert_eq!(today(late).to_string(), "2026-11-16");
    }
}
