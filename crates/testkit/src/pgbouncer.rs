//! The real PgBouncer in front of the test server.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::server::Server;
use crate::wait::eventually_some;

const START_DEADLINE: Duration = Duration::from_secs(30);

/// A free port can be taken by another process before PgBouncer listens on it.
const START_ATTEMPTS_MAX: u32 = 5;

/// A running PgBouncer in transaction pooling mode, stopped when this value is dropped.
///
/// It hands a server connection to a client for one transaction only, so that session state,
/// session locks, LISTEN and named prepared statements do not survive from one transaction to the
/// next.
#[derive(Debug)]
pub struct PgBouncer {
    process: Child,
    address: SocketAddr,
    user: String,
    /// Holds the configuration and the log; removed with this value.
    _directory: TempDir,
}

impl PgBouncer {
    /// Starts a PgBouncer for all databases of the server that `postgres_url` names.
    pub async fn start(postgres_url: &str) -> Self {
        let server = Server::at(postgres_url);
        let mut log = String::new();
        for _ in 0..START_ATTEMPTS_MAX {
            match Self::try_start(&server).await {
                Ok(started) => return started,
                Err(output) => log = output,
            }
        }
        panic!("pgbouncer did not start; its output:\n{log}");
    }

    /// The URL of a database of the server, reached through PgBouncer.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{}@{}/{database}", self.user, self.address)
    }

    /// Where PgBouncer listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts one process and waits until it accepts; the error is its output before it ended.
    async fn try_start(server: &Server) -> Result<Self, String> {
        let directory = tempfile::tempdir().expect("create a directory for pgbouncer");
        let address = free_address();
        let config = directory.path().join("pgbouncer.ini");
        let log = directory.path().join("log");
        fs::write(&config, configuration(server, address)).expect("write pgbouncer.ini");
        let mut started = Self {
            process: spawn(
                &directory,
                &config,
                File::create(&log).expect("create pgbouncer's log"),
            ),
            address,
            user: server.user().to_owned(),
            _directory: directory,
        };
        let process = &mut started.process;
        let accepts = eventually_some("pgbouncer accepts", START_DEADLINE, || {
            let ended = process
                .try_wait()
                .expect("ask whether pgbouncer runs")
                .is_some();
            async move {
                if ended {
                    Some(false)
                } else {
                    TcpStream::connect(address).await.is_ok().then_some(true)
                }
            }
        });
        if accepts.await {
            Ok(started)
        } else {
            Err(fs::read_to_string(&log).unwrap_or_default())
        }
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if self
            .process
            .kill()
            .and_then(|()| self.process.wait().map(drop))
            .is_err()
        {
            eprintln!(
                "pgbouncer, process {}, may be left running",
                self.process.id()
            );
        }
    }
}

/// Every client logs in as the user of the server's URL. The pool is small, so that tests meet
/// connections that another client has used before.
fn configuration(server: &Server, address: SocketAddr) -> String {
    let (host, port, user) = (server.host(), server.port(), server.user());
    let password = server
        .password()
        .map(|it| format!("password={it}"))
        .unwrap_or_default();
    let (listen_addr, listen_port) = (address.ip(), address.port());
    format!(
        "[databases]\n\
         * = host={host} port={port} user={user} {password}\n\
         [pgbouncer]\n\
         listen_addr = {listen_addr}\n\
         listen_port = {listen_port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = 4\n\
         max_client_conn = 200\n\
         ignore_startup_parameters = extra_float_digits,options\n"
    )
}

fn spawn(directory: &TempDir, config: &Path, log: File) -> Child {
    let mut command = Command::new(program());
    let errors = log.try_clone().expect("share pgbouncer's log");
    command
        .arg(config)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors);
    // PgBouncer refuses to run as root. The owner of the directory is the current user.
    let metadata = fs::metadata(directory).expect("look at the directory for pgbouncer");
    if metadata.uid() == 0 {
        let (uid, gid) = unprivileged_user();
        chown(directory, Some(uid), Some(gid)).expect("give the directory to pgbouncer's user");
        command.uid(uid).gid(gid);
    }
    command.spawn().unwrap_or_else(|error| {
        panic!("start {command:?}: {error}; run scripts/test --all, which installs pgbouncer")
    })
}

/// Debian installs PgBouncer where only root's PATH looks.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = [
        "/usr/sbin",
        "/usr/local/sbin",
        "/usr/local/bin",
        "/opt/homebrew/bin",
    ];
    std::env::split_paths(&path)
        .chain(more.map(PathBuf::from))
        .map(|directory| directory.join("pgbouncer"))
        .find(|program| program.is_file())
        .unwrap_or_else(|| PathBuf::from("pgbouncer"))
}

fn unprivileged_user() -> (u32, u32) {
    let id = |flag: &str, user: &str| -> Option<u32> {
        let output = Command::new("id").args([flag, user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|user| Some((id("-u", user)?, id("-g", user)?)))
        .expect("a user postgres or nobody, because pgbouncer refuses to run as root")
}

fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("find a free port")
}
