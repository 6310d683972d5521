//! Processor time of one server process: what waiting for disks and neighbours does not change.

use std::{fs, time::Duration};

use anyhow::Result;
use sqlx::{PgConnection, Row};

/// The server process behind one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    pid: i32,
}

impl Backend {
    /// The process behind a connection, if it can be looked at: on this machine, under Linux.
    pub(crate) async fn of(connection: &mut PgConnection) -> Result<Option<Self>> {
        let row = sqlx::query("SELECT pg_backend_pid() AS pid")
            .fetch_one(connection)
            .await?;
        Ok(Self::looked_at(row.try_get("pid")?))
    }

    /// The process behind the one connection that a store has opened to this database.
    pub(crate) async fn of_store(connection: &mut PgConnection) -> Result<Option<Self>> {
        let rows = sqlx::query(include_str!("../sql/store_backends.sql"))
            .fetch_all(connection)
            .await?;
        match &rows[..] {
            [row] => Ok(Self::looked_at(row.try_get("pid")?)),
            // Without knowing which one works, its time is meaningless.
            _ => Ok(None),
        }
    }

    /// Time that these have spent on a processor together, if they can be looked at.
    pub(crate) fn time_of(pids: &[i32]) -> Option<Duration> {
        let times = pids.iter().map(|pid| Self::looked_at(*pid)?.cpu());
        times.sum()
    }

    fn looked_at(pid: i32) -> Option<Self> {
        let backend = Self { pid };
        // The same number may be another process here when the server is elsewhere.
        let name = fs::read_to_string(format!("/proc/{}/comm", backend.pid)).unwrap_or_default();
        Some(backend).filter(|backend| name.starts_with("postgres") && backend.cpu().is_some())
    }

    /// Time it has spent on a processor so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).ok()?;
        let ns = text.split(' ').next()?.parse().ok()?;
        Some(Duration::from_nanos(ns))
    }
}
