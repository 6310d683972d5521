//! A process that stays: `consign serve` and `consign work`.
//!
//! It starts in an order that lets every mistake be found before anything is touched, waits for a
//! database that is not there yet, and ends by finishing what is under way.

mod banner;
mod drain;
mod files;
mod gate;
mod http;
mod memory;
mod once;
mod opening;
mod orders;
mod own_queue;
mod payments;
mod pulse;
mod queues;
mod redrives;
mod reload;
mod schema;
mod scm;
mod signals;
mod systemd;
mod watchdog;

use std::{net::SocketAddr, ops::ControlFlow, sync::Arc, time::Duration};

use consign_kernel::Store;
use consign_server::{AppState, ServerOptions, check_exposure};
use consign_worker::{QueueWork, Worker, WorkerHandle, WorkerOptions};
use tokio::{task::JoinHandle, time::timeout};

use self::{
    banner::Banner,
    http::Http,
    opening::Opening,
    orders::Orders,
    payments::Payments,
    pulse::Pulses,
    scm::Rounds,
    signals::{Signals, Told},
    systemd::Systemd,
    watchdog::Watchdog,
};
pub(crate) use self::{
    memory::Memory,
    scm::{Hooks, Repositories, metrics as scm_metrics},
};
use crate::{
    config::{Config, Sources},
    context::address_of,
    database::{Address, Opened, Reach},
    failure::{Exit, Failure},
    output::Output,
    telemetry::{Sampled, Sampler, Telemetry},
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
    /// To read the configuration again from.
    pub(crate) sources: Sources,
    pub(crate) role: Role,
    /// Whether it delivers messages; else it only takes and shows them.
    pub(crate) delivers: bool,
    /// Bring the database to this program's schema first.
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

/// Refuses a configuration that a service could not start with.
pub(crate) async fn check(config: &Config) -> Result<(), Failure> {
    check_exposure(&config.settings.server).map_err(|error| misconfigured(&error))?;
    orders::Orders::prepare(config).await?;
    Payments::prepare(config, &address_of(config)?)?;
    Memory::prepare(config)?;
    queues::work(config).await.map(drop)
}

impl Service {
    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self) -> Result<Exit, Failure> {
        let mut signals = Signals::install()?;
        let telemetry = Telemetry::start(&self.config.settings)?;
        if let Some(note) = &self.config.note {
            tracing::warn!("{note}");
        }
        files::raise_limit();
        let systemd = Systemd::from_environment();
        let address = address_of(&self.config)?;
        let mut work = queues::work(&self.config).await?;
        let mut protocols = Protocols {
            orders: Orders::prepare(&self.config).await?,
            payments: Payments::prepare(&self.config, &address)?,
            memory: Memory::prepare(&self.config)?,
        };
        let http = Http::start(
            &self.config.settings.server,
            &self.role,
            telemetry.request_hook(),
        )
        .await?;
        let opening = Opening {
            address: &address,
            reach: self.reach(),
            migrate: self.migrate,
            config: &self.config,
            out: self.out,
            systemd: &systemd,
        };
        let (opened, has) = tokio::select! {
            opened = opening.open() => opened?,
            _ = signals.stop() => return Ok(Exit::Fine),
        };
        protocols.keep(has);
        work.extend(protocols.work(&opened));
        work.retain(|_| self.delivers);
        let store = &opened.store;
        let worker = self.start_worker(store, work, &address, &telemetry);
        let tenants = self.config.settings.payments.tenants.clone();
        let state = state(&opened, &protocols, &worker, &address, &telemetry);
        let state = state.with_tenants(tenants);
        if let Some(http) = &http {
            http.open(&state, self.server_options(), &self.role);
        }
        let helpers = self.start_helpers(&opened, &protocols, &state, &telemetry);
        let pulses = Pulses::start(store, &worker, &state);
        self.print_banner(&address, http.as_ref(), &protocols, &worker);
        systemd.ready("running");
        let watchdog = self.watch(systemd, &worker);
        let mut running = Running {
            state,
            worker,
            http,
            rounds: self.start_rounds(&opened, protocols.memory.as_ref()),
        };
        match self.role {
            Role::Work { once: true, .. } => tokio::select! {
                () = once::nothing_is_due(&running.worker, &**store) => {}
                _ = signals.stop() => {}
            },
            _ => running.until_told(&mut signals, &mut self, &**store).await,
        }
        let is_once = matches!(self.role, Role::Work { once: true, .. });
        let exit = running.drain(&mut signals, watchdog, is_once).await;
        pulses.end().await;
        for helper in helpers {
            helper.abort();
        }
        telemetry.end().await;
        Ok(exit)
    }

    /// Whoever closed standard output does without the banner, not without the service.
    fn print_banner(
        &self,
        address: &Address,
        http: Option<&Http>,
        protocols: &Protocols,
        worker: &WorkerHandle,
    ) {
        let banner = Banner {
            out: self.out,
            config: &self.config,
            address,
            url: http.map(|http| http.url.as_str()),
            orders: protocols.orders.as_ref().map(Orders::summary),
            payments: protocols.payments.as_ref().map(Payments::summary),
            memory: protocols.memory.as_ref().map(Memory::summary),
            role: &self.role,
        };
        if let Err(failure) = banner.print(worker) {
            tracing::info!("the banner was not printed: {}", failure.message());
        }
    }

    fn reach(&self) -> Reach {
        let database = &self.config.settings.database;
        Reach {
            pooler: database.pooler,
            listen_url: database.listen_url.clone(),
            connections_max: database.connections_max,
            report_timeout: REPORT_TIMEOUT,
        }
    }

    /// Reads the configuration again, but not beyond a signal to stop: a database that hangs must
    /// not make the process deaf.
    async fn reload(&mut self, signals: &mut Signals, store: &dyn Store) -> ControlFlow<()> {
        tracing::info!("reading the configuration again");
        let reload = reload::reload(&mut self.config, &self.sources, store);
        tokio::select! {
            done = timeout(RELOAD_PATIENCE, reload) => {
                if done.is_err() {
                    tracing::error!(
                        "the configuration was not taken: the database did not answer within \
                         {RELOAD_PATIENCE:?}; send SIGHUP again"
                    );
                }
                ControlFlow::Continue(())
            }
            _ = signals.stop() => {
                tracing::warn!("the configuration was not taken: told to stop before it was");
                ControlFlow::Break(())
            }
        }
    }

    fn server_options(&self) -> &ServerOptions {
        &self.config.settings.server
    }

    fn watch(&self, systemd: Systemd, worker: &WorkerHandle) -> Watchdog {
        let server = self.server_options();
        let tick_age_max = Duration::from_millis(server.tick_age_max_ms);
        let grace_ms = self.config.settings.worker.grace_ms + server.shutdown_grace_ms;
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
        let settings = &self.config.settings.worker;
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
        opened: &Opened,
        protocols: &Protocols,
        state: &AppState,
        telemetry: &Telemetry,
    ) -> Vec<JoinHandle<()>> {
        let every = Duration::from_millis(self.config.settings.telemetry.sample_interval_ms);
        let Protocols {
            orders,
            payments,
            memory,
        } = protocols;
        let sampled = match orders {
            Some(_) => opened.clone().into(),
            None => Sampled::from(Arc::clone(&opened.store)),
        };
        let sampler = Sampler::new(sampled, every, telemetry.upkeep());
        let redrives = redrives::run(Arc::clone(&opened.store), state.clone());
        let mut helpers = vec![tokio::spawn(sampler.run()), tokio::spawn(redrives)];
        let purge = orders
            .as_ref()
            .and_then(|orders| orders.purge(opened, &self.role));
        helpers.extend(purge.map(tokio::spawn));
        let watch = payments
            .as_ref()
            .and_then(|payments| payments.watch(opened, &self.role));
        helpers.extend(watch.map(tokio::spawn));
        if let Some(memory) = memory {
            // Cut off at the end, it would leave behind what it tries the memory server with.
            if !matches!(self.role, Role::Work { once: true, .. }) {
                helpers.push(tokio::spawn(memory.check(opened)));
            }
            helpers.extend(memory.reconcile(opened, &self.role).map(tokio::spawn));
        }
        if matches!(self.role, Role::Serve) {
            helpers.push(tokio::spawn(scm::sample(Arc::clone(&opened.scm), every)));
        }
        helpers
    }

    /// Looks after repositories, where that is wanted.
    fn start_rounds(&self, opened: &Opened, memory: Option<&Memory>) -> Option<Rounds> {
        let rounds = || Rounds::start(Repositories::of(opened, memory, &self.config));
        matches!(self.role, Role::Serve).then(rounds).flatten()
    }
}

/// What is spoken here besides the API of messages.
struct Protocols {
    orders: Option<Orders>,
    payments: Option<Payments>,
    memory: Option<Memory>,
}

impl Protocols {
    /// Gives up what turned out to be others' business.
    fn keep(&mut self, has: opening::Has) {
        let Self {
            orders,
            payments,
            memory,
        } = self;
        orders.take_if(|_| !has.orders);
        payments.take_if(|_| !has.payments);
        memory.take_if(|_| !has.memory);
    }

    /// Their queues with their sinks.
    fn work(&self, opened: &Opened) -> impl Iterator<Item = QueueWork> {
        let orders = self.orders.as_ref().map(|orders| orders.work(opened));
        let payments = self.payments.as_ref().and_then(Payments::work);
        let memory = self.memory.as_ref().map(|memory| memory.work(opened));
        orders.into_iter().chain(payments).chain(memory)
    }
}

/// A service that has started.
struct Running {
    state: AppState,
    worker: WorkerHandle,
    http: Option<Http>,
    rounds: Option<Rounds>,
}

impl Running {
    /// Returns when somebody tells it to stop, or when it is of no use any more.
    async fn until_told(
        &mut self,
        signals: &mut Signals,
        service: &mut Service,
        store: &dyn Store,
    ) {
        loop {
            let told = tokio::select! {
                told = signals.next() => told,
                () = listening(&mut self.http) => {
                    tracing::error!("the HTTP server ended by itself");
                    return;
                }
            };
            match told {
                Told::Stop(_) => return,
                Told::Reload => {
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

fn state(
    opened: &Opened,
    protocols: &Protocols,
    worker: &WorkerHandle,
    address: &Address,
    telemetry: &Telemetry,
) -> AppState {
    let worker = worker.clone();
    let schema = schema::Check::new(address.clone());
    let state = AppState::new(Arc::clone(&opened.store))
        .with_worker(move || worker.status())
        .with_metrics(telemetry.renderer())
        .with_schema_check(move || schema.clone().fits());
    let state = match &protocols.orders {
        Some(orders) => state.with_orders(orders.service(opened), orders.wait_max()),
        None => state,
    };
    let state = match &protocols.payments {
        Some(payments) => state.with_payments(payments.here(opened)),
        None => state,
    };
    match &protocols.memory {
        Some(memory) => state.with_memory(memory.here(opened)),
        None => state,
    }
}

fn misconfigured(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, "config", error.to_string())
}

/// Host and process: what somebody who sees a stuck lease wants to know.
fn default_owner() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "consign",
        host => host,
    };
    format!("{host}-{}", std::process::id())
}
