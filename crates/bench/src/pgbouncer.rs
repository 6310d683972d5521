//! PgBouncer in transaction mode, where it is installed.

use std::{
    net::{SocketAddr, TcpListener},
    os::unix::fs::chown,
    path::PathBuf,
    process::{Command as Blocking, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use sqlx::{ConnectOptions, postgres::PgConnectOptions};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{interval, timeout},
};

const PATIENCE: Duration = Duration::from_secs(10);
/// Debian installs it where only root's PATH looks.
const PLACES: &[&str] = &["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/// A PgBouncer of our own, ended when dropped.
#[derive(Debug)]
pub(crate) struct PgBouncer {
    _child: Child,
    _directory: TempDir,
    address: SocketAddr,
}

impl PgBouncer {
    /// Starts one in front of the server of `url`; none where it is not installed.
    pub(crate) async fn start(url: &str) -> Result<Option<Self>> {
        let mut places = PLACES
            .iter()
            .map(|place| PathBuf::from(place).join("pgbouncer"));
        let Some(program) = places.find(|program| program.is_file()) else {
            return Ok(None);
        };
        let server: PgConnectOptions = url.parse()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("pgbouncer.ini");
        std::fs::write(&file, configuration(&server, address))?;
        let mut command = Command::new(program);
        command
            .arg("-q")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        // It refuses to run as root.
        if rustix::process::geteuid().is_root() {
            let (user, group) = unprivileged_user()?;
            chown(directory.path(), Some(user), Some(group))?;
            command.uid(user).gid(group);
        }
        let child = command.spawn().context("start pgbouncer")?;
        let mut looks = interval(Duration::from_millis(10));
        let listens = async {
            while TcpStream::connect(address).await.is_err() {
                looks.tick().await;
            }
        };
        timeout(PATIENCE, listens)
            .await
            .context("pgbouncer did not start")?;
        Ok(Some(Self {
            _child: child,
            _directory: directory,
            address,
        }))
    }

    /// The same database, reached through it.
    pub(crate) fn url(&self, direct: &str) -> Result<String> {
        let options: PgConnectOptions = direct.parse()?;
        let through = options
            .host(&self.address.ip().to_string())
            .port(self.address.port());
        Ok(through.to_url_lossy().into())
    }
}

fn configuration(server: &PgConnectOptions, address: SocketAddr) -> String {
    let (host, port, user) = (server.get_host(), server.get_port(), server.get_username());
    let (listen_addr, listen_port) = (address.ip(), address.port());
    format!(
        "[databases]\n* = host={host} port={port} user={user}\n[pgbouncer]\n\
         listen_addr = {listen_addr}\nlisten_port = {listen_port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = 10\n\
         ignore_startup_parameters = extra_float_digits,options\n"
    )
}

/// A user who is not root, and may run things.
fn unprivileged_user() -> Result<(u32, u32)> {
    let id = |flag: &str, user: &str| -> Option<u32> {
        let output = Blocking::new("id").args([flag, user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|user| Some((id("-u", user)?, id("-g", user)?)))
        .context("pgbouncer needs a user who is not root")
}
