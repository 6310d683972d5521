//! A process that stays: `consign serve` and `consign work`.
//!
//! It starts in an order that lets every mistake be found before anything is touched, waits for a
//! database that is not there yet, and ends by finishing what is under way.

mod alerts;
mod banner;
mod drain;
mod files;
mod gate;
mod heartbeat;
mod http;
mod once;
mod opening;
mod queues;
mod redrives;
mod reload;
mod retention;
mod schema;
mod signals;
mod systemd;
mod watchdog;

use std::{net::SocketAddr, ops::ControlFlow, sync::Arc, time::Duration};

use consign_app::{AppService, Background, ServiceKind};
use consign_kernel::Store;
use consign_retention::Maintenance;
use consign_server::{AppState, Extension, ServerOptions, check_exposure};
use consign_worker::{QueueWork, Worker, WorkerHandle, WorkerOptions};
use tokio::{task::JoinHandle, time::timeout};

use self::{
    banner::Banner,
    heartbeat::Heartbeats,
    http::Http,
    opening::Opening,
    signals::{SignalAction, Signals},
    systemd::Systemd,
    watchdog::Watchdog,
};
use crate::{
    commands::retention::options,
    config::{Config, Settings, Sources},
    database::{Address, Apps, Database, Reach},
    failure::{Exit, Failure},
    output::Output,
    room::Bounds,
    telemetry::{GrowthGauges, Sampler, Telemetry},
};

/// What the end may take beyond its grace periods.
const MARGIN: Duration = Duration::from_secs(5);
/// How long a report may walk the tables of PostgreSQL.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long policies may take to be read and written when the configuration is read again.
const RELOAD_PATIENCE: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) config: Config,
    pub(crate) settings: Settings,
    /// To read the configuration again from.
    pub(crate) sources: Sources,
    pub(crate) role: Role,
    /// Whether it delivers messages; else it only takes and shows them.
    pub(crate) delivers: bool,
    /// Migrate the database to this program's schema first.
    pub(crate) migrate: bool,
    pub(crate) out: Output,
}

/// Which parts of it.
#[derive(Debug)]
pub(crate) enum Role {
    /// API and worker.
    Serve,
    /// The worker; its health at an address if there is one.
    Work {
        health: Option<SocketAddr>,
        /// Only what is due now.
        once: bool,
    },
}

/// An app of a service with its name.
type NamedService = (&'static str, Arc<dyn AppService>);

/// Rejects a configuration that a service could not start with.
pub(crate) async fn check(config: &Config, settings: &Settings) -> Result<(), Failure> {
    check_exposure(&settings.server).map_err(|error| misconfigured(&error))?;
    prepare_apps(config).await?;
    queues::work(config, settings).await.map(drop)
}

async fn prepare_apps(config: &Config) -> Result<Vec<NamedService>, Failure> {
    let mut apps = Vec::new();
    for app in config.apps() {
        apps.push((app.name(), app.prepare(config).await?));
    }
    Ok(apps)
}

impl Service {
    /// Runs until a stop signal.
    pub(crate) async fn run(mut self) -> Result<Exit, Failure> {
        let mut signals = Signals::install()?;
        let telemetry = Telemetry::start(&self.settings, self.config.registry())?;
        for note in &self.config.notes {
            tracing::warn!("{note}");
        }
        files::raise_limit();
        let systemd = Systemd::from_environment();
        let address = self.config.address()?;
        let mut work = queues::work(&self.config, &self.settings).await?;
        let mut apps = prepare_apps(&self.config).await?;
        let spans = telemetry.request_hook();
        let http = Http::start(&self.settings.server, &self.config, &self.role, spans).await?;
        let opening = Opening {
            address: &address,
            reach: self.reach(),
            migrate: self.migrate,
            config: &self.config,
            settings: &self.settings,
            services: &apps,
            out: self.out,
            systemd: &systemd,
        };
        let (database, left_out) = tokio::select! {
            opened = opening.open() => opened?,
            _ = signals.stop() => return Ok(Exit::Fine),
        };
        apps.retain(|(name, _)| !left_out.contains(name));
        work.extend(apps.iter().flat_map(|(_, app)| app.work(&database)));
        work.retain(|_| self.delivers);
        let store = &database.store;
        let worker = self.start_worker(store, work, &address, &telemetry);
        let state = self.state(&database, &apps, &worker, &address, &telemetry);
        if let Some(http) = &http {
            http.open(&state, self.server_options(), &self.role);
        }
        let maintenance = self.maintenance(store, &address)?;
        let growth = GrowthGauges::new(Bounds::of(&address, &self.settings.retention));
        let helpers = self.start_helpers(&database, &apps, &state, &telemetry, growth, maintenance);
        let heartbeats = Heartbeats::start(store, &worker, &state);
        self.print_banner(&address, http.as_ref(), &apps, &worker);
        systemd.ready("running");
        let watchdog = self.watch(systemd, &worker);
        let mut running = RunningService {
            state,
            worker,
            http,
            background: self.start_background(&database, &apps),
        };
        match self.role {
            Role::Work { once: true, .. } => tokio::select! {
                () = once::nothing_is_due(&running.worker, &**store) => {}
                _ = signals.stop() => {}
            },
            _ => {
                running
                    .until_stopped(&mut signals, &mut self, &**store)
                    .await
            }
        }
        let is_once = matches!(self.role, Role::Work { once: true, .. });
        let exit = running.drain(&mut signals, watchdog, is_once).await;
        heartbeats.end().await;
        for helper in helpers {
            helper.abort();
        }
        telemetry.end().await;
        Ok(exit)
    }

    /// With standard output closed the banner is not printed, and the service still runs.
    fn print_banner(
        &self,
        address: &Address,
        http: Option<&Http>,
        apps: &[NamedService],
        worker: &WorkerHandle,
    ) {
        let banner = Banner {
            out: self.out,
            file: self.config.file.as_deref(),
            settings: &self.settings,
            address,
            url: http.map(|http| http.url.as_str()),
            apps,
            role: &self.role,
        };
        if let Err(failure) = banner.print(worker) {
            tracing::info!("the banner was not printed: {}", failure.message());
        }
    }

    fn reach(&self) -> Reach {
        let database = &self.settings.database;
        Reach {
            pooler: database.pooler,
            listen_url: database.listen_url.clone(),
            connections_max: database.connections_max,
            report_timeout: REPORT_TIMEOUT,
        }
    }

    /// Reads the configuration again, but not beyond a signal to stop: a database that hangs must
    /// not make the process ignore signals.
    async fn reload(&mut self, signals: &mut Signals, store: &dyn Store) -> ControlFlow<()> {
        tracing::info!("reading the configuration again");
        let reload = reload::reload(&mut self.config, &self.sources, store);
        tokio::select! {
            done = timeout(RELOAD_PATIENCE, reload) => {
                if done.is_err() {
                    tracing::error!(
                        "the new configuration was not applied: the database did not answer within \
                         {RELOAD_PATIENCE:?}; send SIGHUP again"
                    );
                }
                ControlFlow::Continue(())
            }
            _ = signals.stop() => {
                tracing::warn!("the new configuration was not applied: a stop signal came first");
                ControlFlow::Break(())
            }
        }
    }

    fn server_options(&self) -> &ServerOptions {
        &self.settings.server
    }

    fn watch(&self, systemd: Systemd, worker: &WorkerHandle) -> Watchdog {
        let server = self.server_options();
        let tick_age_max = Duration::from_millis(server.tick_age_max_ms);
        let grace_ms = self.settings.worker.grace_ms + server.shutdown_grace_ms;
        let patience = Duration::from_millis(grace_ms) + MARGIN;
        Watchdog::start(systemd, worker.clone(), tick_age_max, patience)
    }

    fn start_worker(
        &self,
        store: &Arc<dyn Store>,
        work: Vec<QueueWork>,
        address: &Address,
        telemetry: &Telemetry,
    ) -> WorkerHandle {
        let settings = &self.settings.worker;
        let owner = settings.owner.clone().unwrap_or_else(default_owner);
        let options = WorkerOptions {
            grace: Duration::from_millis(settings.grace_ms),
            claimed_max_bytes: settings.claimed_max_bytes,
            notified: matches!(address, Address::Sqlite { .. }) || self.reach().wakes(),
            span_hook: telemetry.span_hook(),
            ..WorkerOptions::new(owner)
        };
        Worker::start(Arc::clone(store), work, options)
    }

    /// What runs beside until the end and may be cut off then.
    fn start_helpers(
        &self,
        database: &Database,
        apps: &[NamedService],
        state: &AppState,
        telemetry: &Telemetry,
        growth: GrowthGauges,
        maintenance: Option<Maintenance>,
    ) -> Vec<JoinHandle<()>> {
        let every = Duration::from_millis(self.settings.telemetry.sample_interval_ms);
        let sampled = apps.iter().map(|(_, app)| Arc::clone(app)).collect();
        let sampler = Sampler::new(database.clone(), sampled, every, growth, telemetry.upkeep());
        let redrives = redrives::run(Arc::clone(&database.store), state.clone());
        let schedules = consign_schedule::run(Arc::clone(&database.store));
        let alerts = alerts::run(Arc::clone(&database.store));
        let mut helpers = vec![
            tokio::spawn(sampler.run()),
            tokio::spawn(redrives),
            tokio::spawn(alerts),
            tokio::spawn(schedules),
        ];
        if let Some(maintenance) = maintenance {
            let every = Duration::from_millis(self.settings.retention.interval_ms);
            helpers.push(tokio::spawn(retention::run(maintenance, every)));
        }
        let tasks = apps
            .iter()
            .flat_map(|(_, app)| app.tasks(database, self.kind()));
        helpers.extend(tasks.map(tokio::spawn));
        helpers
    }

    /// The maintenance that this process takes turns in; none for one that ends soon.
    fn maintenance(
        &self,
        store: &Arc<dyn Store>,
        address: &Address,
    ) -> Result<Option<Maintenance>, Failure> {
        let settings = &self.settings.retention;
        if !settings.enabled || self.kind() == ServiceKind::WorkOnce {
            return Ok(None);
        }
        let owner = self.settings.worker.owner.clone();
        let options = options(settings, owner.unwrap_or_else(default_owner), address)?;
        Ok(Some(Maintenance::new(Arc::clone(store), options)))
    }

    /// What runs beside and is ended in its own time.
    fn start_background(
        &self,
        database: &Database,
        apps: &[NamedService],
    ) -> Vec<Box<dyn Background>> {
        if self.kind() != ServiceKind::Serve {
            return Vec::new();
        }
        let started = apps.iter().filter_map(|(_, app)| app.background(database));
        started.collect()
    }

    fn kind(&self) -> ServiceKind {
        match self.role {
            Role::Serve => ServiceKind::Serve,
            Role::Work { once: false, .. } => ServiceKind::Work,
            Role::Work { once: true, .. } => ServiceKind::WorkOnce,
        }
    }

    fn state(
        &self,
        database: &Database,
        apps: &[NamedService],
        worker: &WorkerHandle,
        address: &Address,
        telemetry: &Telemetry,
    ) -> AppState {
        let worker = worker.clone();
        let schema = schema::Check::new(address.clone(), Apps::of(&self.config));
        let state = AppState::new(Arc::clone(&database.store))
            .with_worker(move || worker.status())
            .with_metrics(telemetry.renderer())
            .with_schema_check(move || schema.clone().fits());
        let registry = self.config.registry().apps.iter();
        let state = registry.fold(state, |state, app| app.restrict(state, &self.config));
        let on = apps.iter().filter_map(|(_, app)| app.extension(database));
        let extensions = off(&self.config).into_iter().chain(on);
        extensions.fold(state, AppState::with_extension)
    }
}

/// A service that has started.
struct RunningService {
    state: AppState,
    worker: WorkerHandle,
    http: Option<Http>,
    background: Vec<Box<dyn Background>>,
}

impl RunningService {
    /// Returns on a stop signal, or when a part of the service has ended.
    async fn until_stopped(
        &mut self,
        signals: &mut Signals,
        service: &mut Service,
        store: &dyn Store,
    ) {
        loop {
            let signal = tokio::select! {
                signal = signals.next() => signal,
                () = listening(&mut self.http) => {
                    tracing::error!("the HTTP server ended by itself");
                    return;
                }
            };
            match signal {
                SignalAction::Stop(_) => return,
                SignalAction::Reload => {
                    if service.reload(signals, store).await.is_break() {
                        return;
                    }
                }
            }
        }
    }
}

/// Returns when the HTTP side has ended, never where there is none.
async fn listening(http: &mut Option<Http>) {
    match http {
        Some(http) => http.ended().await,
        None => std::future::pending().await,
    }
}

/// Every app, switched off: its paths answer which setting enables it. One that is on replaces its
/// entry.
fn off(config: &Config) -> Vec<Arc<dyn Extension>> {
    let apps = config.registry().apps.iter();
    apps.filter_map(|app| app.extension()).collect()
}

fn misconfigured(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, "config", error.to_string())
}

/// Host and process, so that an operator can find the owner of a stuck lease.
pub(crate) fn default_owner() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "consign",
        host => host,
    };
    format!("{host}-{}", std::process::id())
}
