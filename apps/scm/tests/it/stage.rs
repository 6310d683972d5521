//! A real ledger (SQLite), a folder for everything, and repositories made by the program `git`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use consign_artifacts::Artifacts;
use consign_scm::{
    Change, NewRepo, NoHooks, Provider, Repo, Retry, ScmError, ScmLedger, Secret, Source,
    SourceOptions, Stream, SyncHooks, SyncOptions, SyncReport, Synchronizer, Watermark,
};
use consign_scm_app::ScmStore;
use consign_sqlite::{SqliteOptions, SqliteStore};
use serde_json::Value;
use sqlx::{ConnectOptions, Row, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use tokio::sync::watch;

/// A ledger and folders that go with the test.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) store: ScmStore<SqliteStore>,
    pub(crate) artifacts: Artifacts,
    pub(crate) options: SourceOptions,
    /// Number of requested waits.
    pub(crate) waits: Arc<AtomicU32>,
    pub(crate) stop: watch::Sender<bool>,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queue.db");
        let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
        let options = options
            .component(consign_memory::store::sqlite_component())
            .component(consign_scm_app::sqlite_component());
        let store = SqliteStore::open(&options.migrate_on_open(true)).await;
        let waits = Arc::new(AtomicU32::new(0));
        let mut options = SourceOptions::new(folder.path().join("mirrors"));
        let counted = Arc::clone(&waits);
        options.retry = Retry {
            wait: Arc::new(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Box::pin(tokio::task::yield_now())
            }),
            ..Retry::default()
        };
        Self {
            store: ScmStore::new(Arc::new(store.unwrap())),
            artifacts: Artifacts::new(folder.path().join("artifacts")),
            options,
            waits,
            stop: watch::Sender::new(false),
            folder,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn add(&self, url: &str, branch: Option<&str>) -> Repo {
        let repo = NewRepo {
            provider: Provider::Git,
            url: url.to_owned(),
            project_key: Some("p".to_owned()),
            default_branch: branch.map(ToOwned::to_owned),
        };
        self.store.add_repo(&repo).await.unwrap()
    }

    pub(crate) fn token(&mut self, secret: &str) {
        self.options.credential = Some(consign_scm::Credential {
            user: None,
            secret: Secret::new(secret),
        });
    }

    pub(crate) fn synchronizer<'a>(
        &'a self,
        repo: &'a Repo,
        source: &'a dyn Source,
        hooks: &'a dyn SyncHooks,
    ) -> Synchronizer<'a> {
        Synchronizer {
            ledger: &self.store,
            source,
            repo,
            artifacts: &self.artifacts,
            options: SyncOptions::default(),
            retry: &self.options.retry,
            hooks,
            stop: self.stop.subscribe(),
        }
    }

    pub(crate) async fn sync(&self, repo: &Repo) -> Result<SyncReport, ScmError> {
        let source = consign_scm::open(repo, &self.options)?;
        self.synchronizer(repo, &*source, &NoHooks).sync().await
    }

    pub(crate) async fn changes(&self, repo: &Repo) -> Vec<Change> {
        let changes = self.store.changes(repo.repo_id, 0, 100_000).await;
        changes.unwrap()
    }

    pub(crate) async fn stored(&self, repo: &Repo) -> Option<Value> {
        let stored = self.store.watermark(repo.repo_id, Stream::Git).await;
        stored.unwrap()
    }

    pub(crate) async fn watermark(&self, repo: &Repo) -> Watermark {
        Watermark::read(self.stored(repo).await.as_ref())
    }

    /// Changes the database outside of the store.
    pub(crate) async fn sql(&self, statement: &'static str) {
        let file = SqliteConnectOptions::new().filename(self.path("queue.db"));
        let mut connection = file.connect().await.unwrap();
        let done = sqlx::raw_sql(statement).execute(&mut connection).await;
        done.unwrap();
    }

    /// What was noted: types and payloads.
    pub(crate) async fn events(&self) -> Vec<(String, Value)> {
        let file = SqliteConnectOptions::new().filename(self.path("queue.db"));
        let mut connection = file.connect().await.unwrap();
        let read = "SELECT event_type, payload_json FROM events ORDER BY event_id";
        let rows = sqlx::query(read).fetch_all(&mut connection).await.unwrap();
        let event = |row: &sqlx::sqlite::SqliteRow| {
            let payload: String = row.get(1);
            (row.get(0), serde_json::from_str(&payload).unwrap())
        };
        rows.iter().map(event).collect()
    }
}

/// A Git repository with a working tree.
pub(crate) struct Work(pub(crate) PathBuf);

impl Work {
    pub(crate) fn new(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let work = Self(path);
        work.git(&["init", "-q", "-b", "main", "."]);
        work
    }

    pub(crate) fn url(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.0, arguments, b"")
    }

    /// Writes a file and commits everything; answers the commit.
    pub(crate) fn commit(&self, file: &str, text: &str, message: &str) -> String {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.head()
    }

    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    /// So many commits to a file.
    pub(crate) fn commits(&self, count: usize) -> Vec<String> {
        let commit = |n| self.commit("counter", &format!("{n}\n"), &format!("number {n}"));
        (0..count).map(commit).collect()
    }

    /// All commits of the branch as Git lists them.
    pub(crate) fn list(&self) -> Vec<String> {
        let list = self.git(&["rev-list", "--reverse", "--topo-order", "HEAD"]);
        list.lines().map(ToOwned::to_owned).collect()
    }
}

/// Runs Git with an identity of its own and an input.
pub(crate) fn git(folder: &Path, arguments: &[&str], input: &[u8]) -> String {
    use std::io::Write;
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    let identity = [
        ("AUTHOR", "Ann Author", "ann@x"),
        ("COMMITTER", "Cem", "cem@x"),
    ];
    for (role, name, email) in identity {
        command.env(format!("GIT_{role}_NAME"), name);
        command.env(format!("GIT_{role}_EMAIL"), email);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

/// Ends a synchronisation after so many batches, as the end of the process would.
pub(crate) struct StopAfter<'a> {
    pub(crate) stop: &'a watch::Sender<bool>,
    pub(crate) batches: Mutex<u32>,
}

#[async_trait::async_trait]
impl SyncHooks for StopAfter<'_> {
    async fn reached(&self, point: consign_scm::Point) {
        if point == consign_scm::Point::AfterBatch {
            let mut batches = self.batches.lock().unwrap();
            *batches = batches.saturating_sub(1);
            self.stop.send_replace(*batches == 0);
        }
    }
}

/// Long enough for anything that a test waits for.
pub(crate) const SOON: Duration = Duration::from_secs(30);
