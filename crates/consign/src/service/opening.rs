//! Getting hold of the database, however long it takes to be there.

use std::time::Duration;

use consign_kernel::Error;
use tokio::time::{Instant, sleep};

use consign_app::queue::PutResult;

use super::{NamedService, queues, systemd::Systemd};
use crate::{
    config::{Config, Settings},
    database::{self, Address, Apps, Database, OnMissing, Reach},
    failure::Failure,
    output::Output,
};

const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Short, so that a database that comes back is noticed.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often the wait is logged.
const SAY_EVERY: Duration = Duration::from_secs(30);
/// The time requested of the service manager while waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it takes to open the database of a service.
pub(super) struct Opening<'a> {
    pub(super) address: &'a Address,
    pub(super) reach: Reach,
    pub(super) migrate: bool,
    pub(super) config: &'a Config,
    pub(super) settings: &'a Settings,
    pub(super) services: &'a [NamedService],
    pub(super) out: Output,
    pub(super) systemd: &'a Systemd,
}

impl Opening<'_> {
    /// The database with the queues of the configuration in it. Waits for a server that does not
    /// answer; fails only where waiting would not help.
    ///
    /// The second half of the answer names the apps whose queue this login cannot create or work.
    pub(super) async fn open(&self) -> Result<(Database, Vec<&'static str>), Failure> {
        let mut pause = PAUSE_MIN;
        let mut reported_at: Option<Instant> = None;
        loop {
            let failure = match self.try_open().await {
                Ok(opened) => {
                    if reported_at.is_some() {
                        tracing::info!("the database answers");
                    }
                    return Ok(opened);
                }
                Err(failure) if self.may_pass(&failure) => failure,
                Err(failure) => return Err(failure),
            };
            if reported_at.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
                tracing::warn!("waiting for the database: {}", failure.message());
                reported_at = Some(Instant::now());
            }
            self.systemd.starting("waiting for the database", PATIENCE);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn try_open(&self) -> Result<(Database, Vec<&'static str>), Failure> {
        let apps = Apps::of(self.config);
        if self.migrate {
            database::migrate(self.address, &apps).await?;
        }
        let opened = database::open(
            self.address,
            &apps,
            &self.reach,
            OnMissing::Create,
            self.out,
        )
        .await?;
        let changed = queues::put(&*opened.store, self.config, self.settings).await;
        let mut changed = changed.map_err(lacking)?;
        let mut left_out = Vec::new();
        for app in self.config.apps() {
            let name = app.name();
            let Some(queue) = app.queue(self.config) else {
                continue;
            };
            match queue.put(&*opened.store, self.config).await? {
                PutResult::Set(queue) => changed.push(queue),
                PutResult::AsItIs => {}
                PutResult::LeftToOthers => {
                    left_out.push(name);
                    tracing::info!(
                        "the app {name} is not served: its queue does not exist, and creating it \
                         needs the role consign_operator"
                    );
                }
                PutResult::NotGranted => {
                    left_out.push(name);
                    let mut services = self.services.iter();
                    let service = services.find(|(other, _)| *other == name);
                    let role = service.map_or("consign_worker", |(_, service)| service.role());
                    tracing::info!("the app {name} is not served: that needs the role {role}");
                }
            }
        }
        for queue in changed {
            tracing::info!(%queue, "queue {queue} was set from the configuration");
        }
        Ok((opened, left_out))
    }

    /// A server may come; a file does not. A schema that does not fit is waited for where the
    /// settings allow it.
    fn may_pass(&self, failure: &Failure) -> bool {
        let server = matches!(self.address, Address::Postgres { .. });
        let waits_for_schema = !self.settings.database.check_on_start;
        match failure.code() {
            Some("database_unavailable") => server,
            Some("schema_mismatch") => waits_for_schema,
            _ => false,
        }
    }
}

/// The error for a login without rights on queues names what the whole process needs.
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
