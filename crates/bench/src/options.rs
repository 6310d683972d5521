//! What to measure, and how much of it.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use serde::Serialize;

/// What to measure, and how much of it.
#[derive(Args, Clone, Debug, Default)]
pub struct Options {
    /// Only these scenarios [default: all]
    #[arg(value_enum, value_name = "SCENARIO")]
    pub scenarios: Vec<Scenario>,

    /// Only this scenario; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    pub scenario: Vec<Scenario>,

    /// How many messages: smoke takes seconds, quick about five minutes, full about half an hour
    #[arg(long, value_enum, default_value_t)]
    pub scale: Scale,

    /// Rounds per figure, of which the median counts [default: 1, 3 or 5, by scale]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=101))]
    pub rounds: Option<u32>,

    /// Where SQLite files are made, on a real disk [default: ./target, else the temporary directory]
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,

    /// End with exit code 1 when a target is missed
    #[arg(long)]
    pub check: bool,

    /// Where npm has installed openmemory-backend, for scenario memory [default: CONSIGN_TEST_OPENMEMORY]
    #[arg(long, value_name = "PATH")]
    pub openmemory: Option<PathBuf>,

    /// Only this attack of scenario attack; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    pub attack: Vec<String>,

    /// The program whose processes are measured, such as an older one [default: `consign` beside this program]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,

    /// Compare with another build of consign-bench: both run drain and pickup, or the named scenarios, in turns
    #[arg(long, value_name = "PATH", conflicts_with_all = ["program", "attack"])]
    pub beside: Option<PathBuf>,
}

impl Options {
    /// The scenarios that were named, either way.
    pub(crate) fn named(&self) -> impl Iterator<Item = Scenario> {
        self.scenarios.iter().chain(&self.scenario).copied()
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(match self.scale {
            Scale::Smoke => 1,
            Scale::Quick => 3,
            Scale::Full => 5,
        })
    }

    /// Where a real OpenMemory is installed, if there is one.
    pub(crate) fn openmemory(&self) -> Option<PathBuf> {
        let named = || std::env::var_os("CONSIGN_TEST_OPENMEMORY").map(PathBuf::from);
        self.openmemory.clone().or_else(named)
    }

    /// The directory for SQLite files.
    pub(crate) fn directory(&self) -> PathBuf {
        let target = PathBuf::from("target");
        match &self.dir {
            Some(dir) => dir.clone(),
            None if target.is_dir() => target,
            None => std::env::temp_dir(),
        }
    }
}

/// One question the benchmark answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// Claim and settle with one worker
    Drain,
    /// WAL and commits per delivered message
    Wal,
    /// Two workers instead of one
    Workers,
    /// A claim with 1,000,000 waiting
    Depth,
    /// A drain while a session holds a snapshot open
    Snapshot,
    /// Durable claim and settle on SQLite
    Sqlite,
    /// First page of a list of 1,000,000
    Ls,
    /// `consign work` from end to end, beside bare claims and settles
    Work,
    /// From an enqueue's commit to the start of its delivery, when idle
    Pickup,
    /// What wake-ups cost 32 producers, and how late they come
    Wake,
    /// A worker killed with -9: when another delivers what it held
    Crash,
    /// SIGTERM under load: duplicates, losses, and how long the end takes
    Stop,
    /// Limits that four processes keep together, seen by their receiver
    Limits,
    /// What a server with ten idle queues costs
    Idle,
    /// Enqueues through the HTTP API
    Http,
    /// Orders through `POST /do/order`, beside plain inserts of the same row
    Orders,
    /// Payments over SQL, beside the design they come from
    Payments,
    /// Memories through the gateway, also while the memory server hangs
    Memory,
    /// The first synchronisation of a Git repository, beside `git log --raw`
    Scm,
    /// Pages of the dashboard over 1,000,000 messages, and what its viewers cost
    Dashboard,
    /// What it costs to let history end, beside a plain DELETE
    Retention,
    /// What hostile clients cost the others; only when it is named
    Attack,
}

impl Scenario {
    /// Whether there is nothing to measure without a PostgreSQL server.
    pub(crate) fn needs_postgres(self) -> bool {
        !matches!(self, Self::Sqlite | Self::Ls)
    }

    /// Whether it starts processes of consign.
    pub(crate) fn needs_program(self) -> bool {
        matches!(
            self,
            Self::Work
                | Self::Crash
                | Self::Stop
                | Self::Limits
                | Self::Idle
                | Self::Http
                | Self::Orders
                | Self::Memory
                | Self::Scm
                | Self::Dashboard
                | Self::Attack
        )
    }

    /// Whether it is run when no scenario is named.
    pub(crate) fn is_usual(self) -> bool {
        self != Self::Attack
    }

    /// Its name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Wal => "wal",
            Self::Workers => "workers",
            Self::Depth => "depth",
            Self::Snapshot => "snapshot",
            Self::Sqlite => "sqlite",
            Self::Ls => "ls",
            Self::Work => "work",
            Self::Pickup => "pickup",
            Self::Wake => "wake",
            Self::Crash => "crash",
            Self::Stop => "stop",
            Self::Limits => "limits",
            Self::Idle => "idle",
            Self::Http => "http",
            Self::Orders => "orders",
            Self::Payments => "payments",
            Self::Memory => "memory",
            Self::Scm => "scm",
            Self::Dashboard => "dashboard",
            Self::Retention => "retention",
            Self::Attack => "attack",
        }
    }
}

/// How many messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Proves that everything runs; the figures mean nothing
    Smoke,
    /// Enough for a first look
    Quick,
    /// What the targets are about
    #[default]
    Full,
}

/// Numbers of messages, by scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) drain: u32,
    pub(crate) wal: u32,
    pub(crate) workers: u32,
    pub(crate) depth_deep: u32,
    pub(crate) depth_shallow: u32,
    pub(crate) depth_claims: u32,
    pub(crate) snapshot: u32,
    /// The control may become so slow that it is stopped.
    pub(crate) snapshot_control_max: Duration,
    pub(crate) sqlite: u32,
    pub(crate) listed: u32,
    pub(crate) list_calls: u32,
    pub(crate) work: u32,
    pub(crate) pickups: u32,
    /// Fewer, because a look that comes once a second takes long to measure.
    pub(crate) pickups_polled: u32,
    /// How long a queue rests before a message, until it is polled as rarely as ever.
    pub(crate) polled_rest: Duration,
    /// How long producers enqueue in each case of wake-ups.
    pub(crate) wake: Duration,
    /// Messages picked up at any moment.
    pub(crate) wakes: u32,
    /// Timers of each kind.
    pub(crate) timers: u32,
    /// How long a lease of the killed worker lives.
    pub(crate) crash_lease: Duration,
    /// Messages the killed process holds; few enough are claimed however slow the machine is.
    pub(crate) crash_held: u32,
    pub(crate) stops: u32,
    pub(crate) stop_messages: u32,
    /// Messages delivered under limits of all processes.
    pub(crate) limited: u32,
    pub(crate) idle: Duration,
    /// How long each case of the HTTP API is measured.
    pub(crate) http: Duration,
    /// Memories stored through the gateway, and as many without it.
    pub(crate) memory_pairs: u32,
    /// Memories of each caller while the memory server hangs.
    pub(crate) memory_hangs: u32,
    /// Callers at once while it does.
    pub(crate) memory_callers: usize,
    /// Of the repository that is synchronised.
    pub(crate) commits: u32,
    /// Messages behind the dashboard, one in a hundred of them dead.
    pub(crate) dashboard: u32,
    /// How often each page is requested.
    pub(crate) dashboard_calls: u32,
    /// How long viewers look.
    pub(crate) viewing: Duration,
    /// How long each attack lasts, and as long it is quiet before.
    pub(crate) attack: Duration,
    /// Messages in ten ranges.
    pub(crate) retained: u32,
    /// How long traffic is measured with and without departures.
    pub(crate) retained_traffic: Duration,
    /// How many ranges are many.
    pub(crate) ranges: u32,
    /// Messages in many ranges and in few; ten times as many in batches.
    pub(crate) ranges_messages: u32,
    /// Messages in a SQLite file, a tenth of which stays.
    pub(crate) retained_sqlite: u32,
}

impl Scale {
    pub(crate) fn counts(self) -> Counts {
        match self {
            Self::Smoke => SMOKE,
            Self::Quick => QUICK,
            Self::Full => FULL,
        }
    }
}

// All are multiples of 1,000, so that batches of 100 and 500 come out even.

const SMOKE: Counts = Counts {
    drain: 1_000,
    wal: 500,
    workers: 1_000,
    depth_deep: 5_000,
    depth_shallow: 1_000,
    depth_claims: 5,
    snapshot: 1_000,
    snapshot_control_max: Duration::from_secs(5),
    sqlite: 1_000,
    listed: 2_000,
    list_calls: 5,
    work: 1_000,
    pickups: 10,
    pickups_polled: 2,
    polled_rest: Duration::from_millis(50),
    wake: Duration::from_millis(300),
    wakes: 10,
    timers: 3,
    crash_lease: Duration::from_secs(1),
    crash_held: 16,
    stops: 2,
    stop_messages: 500,
    limited: 100,
    idle: Duration::from_secs(2),
    http: Duration::from_millis(300),
    memory_pairs: 10,
    memory_hangs: 1,
    memory_callers: 5,
    commits: 300,
    dashboard: 10_000,
    dashboard_calls: 2,
    viewing: Duration::from_secs(1),
    attack: Duration::from_secs(1),
    retained: 20_000,
    retained_traffic: Duration::from_millis(500),
    ranges: 20,
    ranges_messages: 100,
    retained_sqlite: 5_000,
};

const QUICK: Counts = Counts {
    drain: 20_000,
    wal: 5_000,
    workers: 20_000,
    depth_deep: 100_000,
    depth_shallow: 10_000,
    depth_claims: 50,
    snapshot: 40_000,
    snapshot_control_max: Duration::from_secs(10),
    sqlite: 50_000,
    listed: 100_000,
    list_calls: 20,
    work: 20_000,
    pickups: 300,
    pickups_polled: 15,
    polled_rest: Duration::from_millis(1500),
    wake: Duration::from_secs(4),
    wakes: 300,
    timers: 50,
    crash_lease: Duration::from_secs(15),
    crash_held: 400,
    stops: 10,
    stop_messages: 1_000,
    limited: 500,
    idle: Duration::from_secs(20),
    http: Duration::from_secs(4),
    memory_pairs: 200,
    memory_hangs: 2,
    memory_callers: 50,
    commits: 10_000,
    dashboard: 100_000,
    dashboard_calls: 20,
    viewing: Duration::from_secs(10),
    attack: Duration::from_secs(15),
    retained: 1_000_000,
    retained_traffic: Duration::from_secs(10),
    ranges: 200,
    ranges_messages: 1_000,
    retained_sqlite: 200_000,
};

const FULL: Counts = Counts {
    drain: 50_000,
    wal: 20_000,
    workers: 50_000,
    depth_deep: 1_000_000,
    depth_shallow: 10_000,
    depth_claims: 100,
    snapshot: 120_000,
    snapshot_control_max: Duration::from_secs(30),
    sqlite: 200_000,
    listed: 1_000_000,
    list_calls: 20,
    work: 100_000,
    pickups: 2_000,
    pickups_polled: 60,
    polled_rest: Duration::from_millis(2500),
    wake: Duration::from_secs(10),
    wakes: 2000,
    timers: 200,
    crash_lease: Duration::from_secs(15),
    crash_held: 400,
    stops: 50,
    stop_messages: 2_000,
    limited: 3_000,
    idle: Duration::from_secs(60),
    http: Duration::from_secs(15),
    memory_pairs: 500,
    memory_hangs: 4,
    memory_callers: 50,
    commits: 50_000,
    dashboard: 1_000_000,
    dashboard_calls: 50,
    viewing: Duration::from_secs(20),
    attack: Duration::from_secs(15),
    retained: 10_000_000,
    retained_traffic: Duration::from_secs(30),
    ranges: 200,
    ranges_messages: 5_000,
    retained_sqlite: 2_000_000,
};
