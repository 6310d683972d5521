//! Databases of tests, and the programs that use them.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use serde_json::Value;
use sqlx::Connection;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) const SOON: Duration = Duration::from_secs(20);

const SHOP: &str = env!("CARGO_BIN_EXE_consign-demo-shop");

/// A folder with an SQLite database.
pub(crate) struct Consign {
    folder: TempDir,
    database: String,
}

impl Consign {
    /// With a migrated database.
    pub(crate) fn new() -> Self {
        let consign = Self::unmigrated();
        consign.json(&["migrate"]);
        consign
    }

    /// With a database that does not exist yet.
    pub(crate) fn unmigrated() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite:{}", folder.path().join("test.db").display());
        Self { folder, database }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// The shop, run in the folder.
    pub(crate) fn shop(&self) -> Command {
        let mut command = Command::new(SHOP);
        command.current_dir(self.folder());
        command
    }

    /// Runs a command of consign on the database and returns its JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ran: Output = Command::new(Path::new(SHOP).with_file_name("consign"))
            .current_dir(self.folder())
            .env_clear()
            .args(["--json", "--database", self.database()])
            .args(arguments)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        serde_json::from_slice(&ran.stdout).unwrap()
    }

    /// Changes the database by hand.
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
}

/// The body of an answer with status 200; one request, one connection.
pub(crate) async fn get(at: SocketAddr, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {at}\r\naccept: {accept}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{path}: {answer}");
    body.to_owned()
}
