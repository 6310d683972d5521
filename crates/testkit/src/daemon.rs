//! A server program that runs beside a test.

use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::wait::eventually_some;

/// An Erlang server needs ten seconds on a busy machine.
const START_DEADLINE: Duration = Duration::from_secs(60);

const END_DEADLINE: Duration = Duration::from_secs(30);

/// A free port can be taken by another process before the server listens on it.
pub(crate) const START_ATTEMPTS_MAX: u32 = 5;

/// One process of a server, killed when this value is dropped.
///
/// It stays in the process group of the test: a program that ends the whole group, as a test runner does
/// with a test that hangs, ends the server too.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: &'static str,
    process: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command`; its output is appended to `log`.
    pub(crate) fn spawn(name: &'static str, mut command: Command, log: &Path) -> Self {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .unwrap_or_else(|error| panic!("open the log of {name}: {error}"));
        let errors = output.try_clone().expect("share the log");
        let process = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("start {command:?}: {error}; run scripts/test --all, which installs {name}")
            });
        Self {
            name,
            process,
            log: log.to_owned(),
        }
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it accepts connections; the error is its output before it ended.
    pub(crate) async fn accepts(&mut self, address: SocketAddr) -> Result<(), String> {
        let Self { name, process, log } = self;
        let what = format!("{name} accepts on {address}");
        let accepts = eventually_some(&what, START_DEADLINE, || {
            let ended = process.try_wait().expect("ask whether the server runs");
            async move {
                match ended {
                    Some(_) => Some(false),
                    None => TcpStream::connect(address).await.is_ok().then_some(true),
                }
            }
        });
        if accepts.await {
            Ok(())
        } else {
            Err(fs::read_to_string(log).unwrap_or_default())
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.id());
        let status = Command::new("sh")
            .args(["-c", &kill])
            .status()
            .expect("run sh");
        assert!(status.success(), "{kill}: {status}");
    }

    /// Stops it (SIGTERM) and returns when it has ended.
    pub(crate) async fn terminate(&mut self) {
        self.signal("TERM");
        let process = &mut self.process;
        eventually_some("the server ends", END_DEADLINE, || {
            let status = process.try_wait().expect("ask whether the server runs");
            std::future::ready(status)
        })
        .await;
    }

    /// Kills it (SIGKILL) and returns when it is gone.
    pub(crate) fn kill9(&mut self) {
        if self
            .process
            .kill()
            .and_then(|()| self.process.wait().map(drop))
            .is_err()
        {
            eprintln!("{}, process {}, may be left running", self.name, self.id());
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A process that has been waited for is not signalled again, so a reused id is safe.
        self.kill9();
    }
}

/// Where a program is; distributions put some servers where only root's PATH looks.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = [
        "/usr/sbin",
        "/usr/local/sbin",
        "/usr/local/bin",
        "/opt/homebrew/bin",
        "/opt/homebrew/sbin",
    ];
    std::env::split_paths(&path)
        .chain(more.map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| PathBuf::from(name))
}

/// A loopback address without a listener.
///
/// The port is below the range from which the system gives ports to clients: a server that is down
/// for a moment must find its port free when it returns.
pub(crate) fn free_address() -> SocketAddr {
    (0..1000)
        .map(|_| SocketAddr::from((Ipv4Addr::LOCALHOST, 20_000 + random_below(12_000))))
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("a free port between 20000 and 32000")
}

/// The keys of a new hasher are random, which saves a dependency.
fn random_below(limit: u16) -> u16 {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0);
    u16::try_from(random % u64::from(limit)).expect("invariant: below a u16")
}
