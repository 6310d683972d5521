//! Getting hold of the database, however long it takes to be there.

use std::time::Duration;

use consign_kernel::Error;
use tokio::time::{Instant, sleep};

use super::{memory, orders, own_queue::Put, payments, queues, systemd::Systemd};
use crate::{
    config::Config,
    database::{self, Address, Opened, Reach},
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

/// What is this process's business, as far as the database lets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Has {
    pub(super) orders: bool,
    pub(super) payments: bool,
    pub(super) memory: bool,
}

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
    /// The database with the queues of the configuration in it. Waits for a server that does not
    /// answer; gives up only where waiting would not help.
    ///
    /// The second half of the answer says what is done here besides.
    pub(super) async fn open(&self) -> Result<(Opened, Has), Failure> {
        let mut pause = PAUSE_MIN;
        let mut said: Option<Instant> = None;
        loop {
            let failure = match self.try_open().await {
                Ok(opened) => {
                    if said.is_some() {
                        tracing::info!("the database is there");
                    }
                    return Ok(opened);
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

    async fn try_open(&self) -> Result<(Opened, Has), Failure> {
        if self.migrate {
            database::migrate(self.address).await?;
        }
        let opened = database::open(self.address, &self.reach, self.out).await?;
        let changed = queues::put(&*opened.store, self.config).await;
        let mut changed = changed.map_err(lacking)?;
        let orders = orders::put(&*opened.store, self.config).await?;
        let payments = payments::put(&*opened.store, self.config).await?;
        let memory = memory::put(&*opened.store, self.config).await?;
        let is_ours = |put: &Put| !matches!(put, Put::LeftToOthers | Put::NotGranted);
        let has = Has {
            orders: is_ours(&orders),
            payments: is_ours(&payments),
            memory: is_ours(&memory),
        };
        for (put, what, role) in [
            (orders, "orders", "consign_order_server"),
            (payments, "payments", "symphony_executor"),
            (memory, "memories", "consign_gateway"),
        ] {
            match put {
                Put::Set(queue) => changed.push(queue),
                Put::AsItIs => {}
                Put::LeftToOthers => tracing::info!(
                    "no {what} are taken or sent here: making their queue needs the role \
                     consign_operator, and nobody has made it"
                ),
                Put::NotGranted => {
                    tracing::info!("no {what} are taken or sent here: that needs the role {role}");
                }
            }
        }
        for queue in changed {
            tracing::info!(%queue, "queue {queue} is set as the configuration says");
        }
        Ok((opened, has))
    }

    /// A server may come; a file does not. A schema that does not fit is waited for where the
    /// settings say so.
    fn may_pass(&self, failure: &Failure) -> bool {
        let server = matches!(self.address, Address::Postgres { .. });
        let waits_for_schema = !self.config.settings.database.check_on_start;
        match failure.code() {
            Some("database_unavailable") => server,
            Some("schema_mismatch") => waits_for_schema,
            _ => false,
        }
    }
}

/// A login that may not even look at queues is told what the whole process needs.
fn lacking(error: Error) -> Failure {
    let is_forbidden = matches!(error, Error::Forbidden { .. });
    let failure = Failure::from(error);
    if !is_forbidden {
        return failure;
    }
    let needs = "a process that delivers needs the role consign_worker, and those of the apps whose \
                 queues it works";
    failure.map_message(|message| format!("{message}; {needs}"))
}
