//! A database of its own for every test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use std::{fmt, thread};

use sqlx::Connection;
use tokio::time::timeout;

use crate::server::Server;
use crate::template;

const DROP_DEADLINE: Duration = Duration::from_secs(30);

/// A PostgreSQL database of its own, dropped together with this value.
pub struct TestDatabase {
    server: Server,
    name: String,
    url: String,
}

impl TestDatabase {
    /// An empty database, on which `prepare` has been run.
    pub async fn create(prepare: impl AsyncFnOnce(&str)) -> Self {
        // What an administrator has put into template1 must not change a test.
        let database = Self::copy_of(Server::from_env(), "template0").await;
        prepare(database.url()).await;
        database
    }

    /// A copy of the database `template`, which `migrate` fills on its first use on
    /// this server.
    ///
    /// The name should contain the [`fingerprint`](crate::fingerprint) of what `migrate` does, so
    /// that an edited migration leads to a new template on a server that lives longer than one test
    /// run.
    pub async fn from_template(template: &str, migrate: impl AsyncFnOnce(&str)) -> Self {
        let server = Server::from_env();
        template::ensure(&server, template, migrate)
            .await
            .unwrap_or_else(|error| panic!("make template database {template}: {error}"));
        Self::copy_of(server, template).await
    }

    /// The URL of a superuser on this database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same URL with another address, such as that of a [`ChaosProxy`](crate::ChaosProxy).
    pub fn url_via(&self, address: SocketAddr) -> String {
        self.server.url_via(address, &self.name)
    }

    /// Where the server listens: the target for a [`ChaosProxy`](crate::ChaosProxy).
    pub async fn address(&self) -> SocketAddr {
        self.server.address().await
    }

    /// The name of this database on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    async fn copy_of(server: Server, template: &str) -> Self {
        let name = unique_name();
        let url = server.url(&name);
        let copied = async {
            let mut maintenance = server.connect().await?;
            template::copy(&mut maintenance, template, &name).await?;
            maintenance.close().await
        };
        copied
            .await
            .unwrap_or_else(|error| panic!("copy database {template}: {error}"));
        Self { server, name, url }
    }
}

impl fmt::Debug for TestDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestDatabase")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Drop for TestDatabase {
    /// Drops the database from a thread of its own, because the runtime of the test may be shutting
    /// down.
    ///
    /// The thread is joined: otherwise the test's process would end before the database is gone.
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropped = thread::spawn(move || drop_database(&server, &name)).join();
        match dropped {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("database {} is left behind: {error}", self.name),
            Err(_) => eprintln!("database {} is left behind: its drop panicked", self.name),
        }
    }
}

fn drop_database(server: &Server, name: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let work = async {
        let mut maintenance = server.connect().await?;
        let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        template::run(&mut maintenance, sql).await?;
        maintenance.close().await
    };
    match runtime.block_on(async { timeout(DROP_DEADLINE, work).await }) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("not dropped within {DROP_DEADLINE:?}")),
    }
}

/// A name that no other test uses: tests run as threads of one process or as many processes, at the
/// same time.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(
        "test_{:x}_{}_{count}",
        since_epoch.as_nanos(),
        std::process::id()
    )
}
