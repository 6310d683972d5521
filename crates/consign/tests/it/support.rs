//! Running the binary, and playing the worker beside it.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use consign_kernel::{Claim, MessageId, Outcome, QueueName, Report, SettleAnswer, Store};
use consign_postgres::{PostgresOptions, PostgresStore, migrate};
use consign_sqlite::{SqliteOptions, SqliteStore};
use consign_testkit::{FileTemplate, TestDatabase, fingerprint};
use serde_json::Value;
use sqlx::Connection;
use tempfile::TempDir;

/// The binary with a database of its own.
pub(crate) struct Consign {
    folder: TempDir,
    database: String,
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Consign {
    /// With a migrated SQLite database.
    pub(crate) fn new() -> Self {
        let consign = Self::unmigrated();
        let file = consign.folder().join("test.db");
        let migrations = sqlite_options(&consign.database).migrations();
        let template = FileTemplate::new(migrations.iter().map(|m| m.sql));
        if !template.copy_to(&file) {
            consign.run(["migrate"]).expect(0);
            template.keep(&file);
        }
        consign
    }

    /// With a SQLite database that does not exist yet.
    pub(crate) fn unmigrated() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite:{}", folder.path().join("test.db").display());
        Self { folder, database }
    }

    /// With a database elsewhere.
    pub(crate) fn at(database: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = database.to_owned();
        Self { folder, database }
    }

    /// Writes the configuration into the folder the binary runs in.
    pub(crate) fn configure(&self, toml: &str) {
        std::fs::write(self.folder().join("consign.toml"), toml).unwrap();
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> CommandOutput {
        self.run_with(arguments, b"")
    }

    /// Runs with something on standard input.
    pub(crate) fn run_with<'a>(
        &self,
        arguments: impl IntoIterator<Item = &'a str>,
        stdin: &[u8],
    ) -> CommandOutput {
        let mut command = self.command();
        command.arg("--database").arg(&self.database);
        command.args(arguments);
        finish(command, stdin)
    }

    /// Runs with `--json` and answers with the JSON on standard output.
    pub(crate) fn json<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Value {
        self.run(arguments.into_iter().chain(["--json"]))
            .expect(0)
            .json()
    }

    /// The binary in the test's folder, with nothing inherited that it would look at.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
        command
            .current_dir(self.folder())
            .env_remove("DATABASE_URL")
            .env_remove("CONSIGN_DATABASE_URL")
            .env_remove("CONSIGN_CONFIG")
            .env_remove("POSTGRES_DSN")
            .env_remove("RUST_LOG")
            .env_remove("COLUMNS")
            .env("CONSIGN_APPS", "orders,payments,memory,scm")
            .env("USER", "tess");
        // A test that is about rails names one in its file.
        let file = std::fs::read_to_string(self.folder().join("consign.toml"));
        if !file.is_ok_and(|text| text.contains("\nrail =")) {
            let rail = if self.database.starts_with("postgres") {
                "none"
            } else {
                "simulated"
            };
            command.env("CONSIGN_PAYMENTS__RAIL", rail);
        }
        if self.database.starts_with("postgres") {
            // Roles could add repositories there; those of tests are on this machine.
            command
                .env("CONSIGN_SCM__ALLOW", "127.0.0.0/8,localhost")
                .env("CONSIGN_SCM__LOCAL_ROOTS", "/");
        }
        command
    }

    /// The same database, from this process.
    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        if self.database.starts_with("postgres") {
            let options = postgres_options(&self.database);
            return Arc::new(PostgresStore::connect(&options).await.unwrap());
        }
        let options = sqlite_options(&self.database);
        Arc::new(SqliteStore::open(&options).await.unwrap())
    }

    /// Breaks the SQLite database by hand.
    pub(crate) async fn sql(&self, statement: &'static str) {
        let mut connection = sqlx::SqliteConnection::connect(&self.database)
            .await
            .unwrap();
        sqlx::raw_sql(statement)
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    }

    /// Enqueues payload `1` and answers with the id.
    pub(crate) fn enqueue_one(&self) -> MessageId {
        let enqueued = self.json(["enqueue", "1"]);
        MessageId(enqueued["id"].as_i64().unwrap())
    }
}

/// An SQLite file with every app, as the binary makes it.
fn sqlite_options(database: &str) -> SqliteOptions {
    let options = SqliteOptions::new(database).unwrap();
    options
        .component(consign_orders::store::sqlite_component())
        .component(consign_payments::store::sqlite_component())
        .component(consign_memory::store::sqlite_component())
        .component(consign_scm_app::sqlite_component())
}

/// A PostgreSQL database with every app, as the binary makes it.
pub(crate) fn postgres_options(url: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(url);
    options.components.extend([
        consign_orders::store::POSTGRES_COMPONENT,
        consign_payments::store::POSTGRES_COMPONENT,
        consign_memory::store::POSTGRES_COMPONENT,
        consign_scm_app::POSTGRES_COMPONENT,
    ]);
    options
}

/// Such a database, migrated.
pub(crate) async fn migrated_database() -> TestDatabase {
    let migrations = postgres_options("").migrations();
    let name = format!("consign_{}", fingerprint(migrations.iter().map(|m| m.sql)));
    TestDatabase::from_template(&name, async |url: &str| {
        migrate(&postgres_options(url)).await.map(drop).unwrap()
    })
    .await
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command, stdin: &[u8]) -> CommandOutput {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    match pipe.write_all(stdin) {
        // A command that reads nothing may be gone already.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("{error}"),
        _ => drop(pipe),
    }
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        status: output.status.code().expect("ended by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl CommandOutput {
    /// Fails unless the exit code is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Standard output as JSON lines.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:#?}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The code and message of a JSON error on standard error.
    #[track_caller]
    pub(crate) fn error(&self) -> (String, String) {
        let value: Value = serde_json::from_str(self.stderr.trim())
            .unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        let text = |name: &str| value["error"][name].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }
}

pub(crate) fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

/// Claims whatever the queue has and reports one outcome for all of it.
pub(crate) async fn work(store: &dyn Store, queue: &QueueName, outcome: Outcome, code: &str) {
    let claim = Claim::new(queue.clone(), "worker-1", 1_000);
    let lease = store.claim(&claim).await.unwrap().expect("something to do");
    let report = |id| Report {
        code: Some(code.into()),
        detail: Some(format!("the sink said {code}")),
        ..Report::new(id, outcome)
    };
    let ids = lease.messages.iter().map(|held| held.message.id);
    let reports: Vec<Report> = ids.map(report).collect();
    let answer = store.settle(lease.token, &reports).await.unwrap();
    assert!(matches!(answer, SettleAnswer::Settled(_)), "{answer:?}");
}

/// Text for people with everything replaced that differs from run to run.
pub(crate) fn assert_stable(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.add_filter(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z \([^)]*\)",
        "[time]",
    );
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"\b\d+(ms|s)\b( ago)?", "[span]");
    // Columns are as wide as their cells, and ages differ in width; a unit test checks alignment.
    settings.add_filter(r" {2,}", "  ");
    settings.bind(|| insta::assert_snapshot!(name, text));
}
