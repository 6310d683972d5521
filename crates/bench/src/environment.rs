//! Where and how a run was measured.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::Serialize;
use sqlx::{Connection, PgConnection, Row};

use crate::{Options, Scale, scenarios::Plan, subject::PAYLOAD_BYTES};

/// Settings that are reported even at their defaults.
const SETTINGS: &[&str] = &[
    "autovacuum",
    "autovacuum_naptime",
    "checkpoint_timeout",
    "commit_delay",
    "data_checksums",
    "effective_cache_size",
    "fsync",
    "full_page_writes",
    "jit",
    "max_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "wal_buffers",
    "wal_compression",
    "wal_level",
    "wal_sync_method",
    "work_mem",
];

/// Where and how a run was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The processor's name.
    pub cpu: String,
    /// How many threads may run at once.
    pub cores: usize,
    /// Main memory.
    pub memory_gib: f64,
    /// Kind and release of the operating system.
    pub system: String,
    /// Load averages when the run began: above zero, other processes ran too.
    pub load: String,
    /// Version of consign.
    pub consign: &'static str,
    /// `release` or `debug`.
    pub build: &'static str,
    /// Size of every payload.
    pub payload_bytes: usize,
    /// How many messages.
    pub scale: Scale,
    /// Rounds per figure.
    pub rounds: u32,
    /// The PostgreSQL server, if there was one.
    pub postgres: Option<Postgres>,
    /// Kind of file system under SQLite's files.
    pub directory_filesystem: String,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
}

/// The PostgreSQL server.
#[derive(Clone, Debug, Serialize)]
pub struct Postgres {
    /// Its version.
    pub version: String,
    /// Settings that bear on the figures, and all that are not at their defaults.
    pub settings: Vec<(String, String)>,
    /// Kind of file system under its data, when it runs on this machine.
    pub filesystem: Option<String>,
}

impl Environment {
    pub(crate) async fn read(options: &Options, plan: &Plan) -> Result<Self> {
        let postgres = match &plan.server {
            Some(server) => Some(Postgres::read(server).await?),
            None => None,
        };
        let line = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let mut environment = Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_gib(),
            system: format!(
                "{} {}",
                std::env::consts::OS,
                line("/proc/sys/kernel/osrelease")
            ),
            load: line("/proc/loadavg")
                .split(' ')
                .take(3)
                .collect::<Vec<_>>()
                .join(" "),
            consign: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
            payload_bytes: PAYLOAD_BYTES,
            scale: options.scale,
            rounds: plan.rounds,
            postgres,
            directory_filesystem: filesystem(&plan.directory)
                .unwrap_or_else(|| "unknown".to_owned()),
            warnings: Vec::new(),
        };
        environment.warnings = environment.doubts();
        Ok(environment)
    }

    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.build == "debug" {
            doubts.push("built without optimisation: use --release".to_owned());
        }
        if self.scale == Scale::Smoke {
            doubts.push("scale smoke only shows that everything runs".to_owned());
        }
        if self.directory_filesystem == "tmpfs" {
            doubts.push(
                "SQLite's files are in memory, not on a disk: choose another --dir".to_owned(),
            );
        }
        let Some(postgres) = &self.postgres else {
            return doubts;
        };
        if postgres.filesystem.as_deref() == Some("tmpfs") {
            doubts.push("PostgreSQL's data is in memory, not on a disk".to_owned());
        }
        for name in ["fsync", "full_page_writes", "synchronous_commit"] {
            let off = postgres
                .settings
                .iter()
                .any(|(n, value)| n == name && value == "off");
            if off {
                doubts.push(format!(
                    "PostgreSQL runs with {name} off: nothing here is durable"
                ));
            }
        }
        doubts
    }
}

impl Postgres {
    async fn read(server: &str) -> Result<Self> {
        let mut connection = PgConnection::connect(server)
            .await
            .context("connect to PostgreSQL")?;
        let version = sqlx::query("SELECT current_setting('server_version') AS version")
            .fetch_one(&mut connection)
            .await?;
        let settings = sqlx::query(include_str!("../sql/settings.sql"))
            .bind(SETTINGS)
            .fetch_all(&mut connection)
            .await?;
        let settings = settings
            .iter()
            .map(|row| Ok((row.try_get("name")?, row.try_get("value")?)))
            .collect::<Result<_>>()?;
        // Only a superuser may know, and only on the same machine it means anything.
        let data = sqlx::query("SELECT current_setting('data_directory') AS path")
            .fetch_one(&mut connection)
            .await
            .and_then(|row| row.try_get::<String, _>("path"));
        let here = server.contains("127.0.0.1") || server.contains("localhost");
        let filesystem = data
            .ok()
            .filter(|_| here)
            .and_then(|path| filesystem(Path::new(&path)));
        connection.close().await?;
        Ok(Self {
            version: version.try_get("version")?,
            settings,
            filesystem,
        })
    }
}

/// The value of a `name : value` line.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_gib() -> f64 {
    let kib = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0 / 1024.0
}

/// Kind of file system a path is on: that of the longest mount point above it.
fn filesystem(path: &Path) -> Option<String> {
    // A data directory may be closed to us; its nearest visible parent is on the same disk.
    let path = path
        .ancestors()
        .find_map(|path| fs::canonicalize(path).ok())?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    mounts
        .filter(|(mount, _)| path.starts_with(mount))
        // Of two mounts on one point the later one is seen, and max_by_key keeps the last.
        .max_by_key(|(mount, _)| mount.len())
        .map(|(_, kind)| kind.to_owned())
}
