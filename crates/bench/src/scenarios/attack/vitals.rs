//! Memory of the attacked process and of the database's sessions.

use std::time::Duration;

use anyhow::Result;
use sqlx::{PgConnection, Row};
use tokio::{task::JoinHandle, time::interval};

use crate::usage;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Memory in MiB.
pub(super) struct Vitals {
    /// The most the process had in RAM since it started.
    pub(super) peak_mib: f64,
    /// What it had when the attack was over.
    pub(super) afterwards_mib: f64,
    /// The most one session of the database had for itself; 0 where the server runs elsewhere.
    pub(super) session_mib: f64,
}

/// Watches the sessions of a database.
pub(super) struct SessionWatch(JoinHandle<Result<f64>>, tokio::sync::oneshot::Sender<()>);

impl Vitals {
    pub(super) fn watch(connection: PgConnection) -> SessionWatch {
        let (end, ended) = tokio::sync::oneshot::channel();
        SessionWatch(tokio::spawn(largest_session(connection, ended)), end)
    }
}

impl SessionWatch {
    pub(super) async fn end(self, pid: u32) -> Result<Vitals> {
        let Self(watching, end) = self;
        drop(end);
        Ok(Vitals {
            session_mib: watching.await??,
            peak_mib: usage::peak_resident_mib(pid)?,
            afterwards_mib: usage::resident_mib(pid)?,
        })
    }
}

async fn largest_session(
    mut connection: PgConnection,
    mut ended: tokio::sync::oneshot::Receiver<()>,
) -> Result<f64> {
    let mut looks = interval(LOOK_EVERY);
    let mut largest = 0.0_f64;
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            _ = &mut ended => return Ok(largest),
        }
        let rows = sqlx::query(include_str!("../../../sql/server_processes.sql"))
            .fetch_all(&mut connection)
            .await?;
        for row in &rows {
            // A session may end while we look.
            let pid = u32::try_from(row.try_get::<i32, _>("pid")?)?;
            largest = largest.max(usage::private_mib(pid).unwrap_or(0.0));
        }
    }
}
