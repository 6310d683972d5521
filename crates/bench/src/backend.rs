//! Processor time of server processes: what waiting for disks and neighbours does not change.

use std::{fs, time::Duration};

use anyhow::Result;
use sqlx::{PgConnection, Row};

/// The server processes behind connections.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pids: Vec<i32>,
}

impl Backend {
    /// The process behind a connection, if it can be looked at: on this machine, under Linux.
    pub(crate) async fn of(connection: &mut PgConnection) -> Result<Option<Self>> {
        let row = sqlx::query("SELECT pg_backend_pid() AS pid")
            .fetch_one(connection)
            .await?;
        Ok(Self::looked_at(vec![row.try_get("pid")?]))
    }

    /// The processes behind the connections that a store has opened to this database.
    pub(crate) async fn of_store(connection: &mut PgConnection) -> Result<Option<Self>> {
        let rows = sqlx::query(include_str!("../sql/store_backends.sql"))
            .fetch_all(connection)
            .await?;
        let pids = rows.iter().map(|row| row.try_get("pid"));
        Ok(Self::looked_at(pids.collect::<Result<_, _>>()?))
    }

    /// Time that these have spent on a processor together, if they can be looked at.
    pub(crate) fn time_of(pids: &[i32]) -> Option<Duration> {
        Self::looked_at(pids.to_vec())?.cpu()
    }

    fn looked_at(pids: Vec<i32>) -> Option<Self> {
        let backend = Self { pids };
        // The same number may be another process here when the server is elsewhere.
        let is_server = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            name.starts_with("postgres")
        };
        Some(backend).filter(|backend| {
            !backend.pids.is_empty()
                && backend.pids.iter().all(is_server)
                && backend.cpu().is_some()
        })
    }

    /// Time they have spent on a processor so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.pids.iter().map(|pid| time_of(*pid)).sum()
    }
}

fn time_of(pid: i32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let ns = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}
