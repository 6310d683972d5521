//! Getting hold of the database, however long it takes to be there.

use std::{sync::Arc, time::Duration};

use consign_kernel::Store;
use tokio::time::{Instant, sleep};

use super::{lanes, systemd::Systemd};
use crate::{
    config::Config,
    database::{self, Address, Reach},
    failure::Failure,
    output::Output,
};

const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Short, so that a database that comes back is noticed.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often to say that we are still waiting.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// What the service manager is asked for while we wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it takes to open the database of a service.
pub(super) struct Opening<'a> {
    pub(super) address: &'a Address,
    pub(super) reach: Reach,
    pub(super) migrate: bool,
    pub(super) config: &'a Config,
    pub(super) out: Output,
    pub(super) systemd: &'a Systemd,
}

impl Opening<'_> {
    /// The database with the lanes of the configuration in it. Waits for a server that does not
    /// answer; gives up only where waiting would not help.
    pub(super) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let mut pause = PAUSE_MIN;
        let mut said: Option<Instant> = None;
        loop {
            let failure = match self.try_open().await {
                Ok(store) => {
                    if said.is_some() {
                        tracing::info!("the database is there");
                    }
                    return Ok(store);
                }
                Err(failure) if self.may_pass(&failure) => failure,
                Err(failure) => return Err(failure),
            };
            if said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
                tracing::warn!("waiting for the database: {}", failure.message());
                said = Some(Instant::now());
            }
            self.systemd.starting("waiting for the database", PATIENCE);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn try_open(&self) -> Result<Arc<dyn Store>, Failure> {
        if self.migrate {
            database::migrate(self.address).await?;
        }
        let store = database::open(self.address, &self.reach, self.out).await?;
        for lane in lanes::put(&*store, self.config).await? {
            tracing::info!(%lane, "lane {lane} is set as the configuration says");
        }
        Ok(store)
    }

    /// A server may come; a file does not.
    fn may_pass(&self, failure: &Failure) -> bool {
        let server = matches!(self.address, Address::Postgres { .. });
        server && failure.code() == Some("database_unavailable")
    }
}
