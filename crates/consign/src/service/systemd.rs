//! Notifications to systemd as `sd_notify` sends them: datagrams to the socket it names.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::{
    ffi::OsStr,
    io,
    os::unix::{
        ffi::OsStrExt,
        net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

/// The service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Systemd {
    socket: Option<UnixDatagram>,
    /// The watchdog interval it requests.
    watchdog: Option<Duration>,
}

impl Systemd {
    /// From `NOTIFY_SOCKET` and `WATCHDOG_USEC`. A manager that cannot be reached is as good as
    /// none, and is logged.
    pub(crate) fn from_environment() -> Self {
        let variable = |name| std::env::var_os(name).filter(|text| !text.is_empty());
        let socket = variable("NOTIFY_SOCKET").and_then(|name| match connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!("NOTIFY_SOCKET cannot be reached: {error}");
                None
            }
        });
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| ours && *usec > 0);
        Self {
            socket,
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    /// How often to feed the watchdog: twice as often as the manager requests.
    pub(crate) fn watchdog_interval(&self) -> Option<Duration> {
        self.socket.as_ref()?;
        self.watchdog.map(|every| every / 2)
    }

    pub(crate) fn ready(&self, status: &str) {
        self.notify(&format!("READY=1\nSTATUS={status}"));
    }

    pub(crate) fn alive(&self) {
        self.notify("WATCHDOG=1");
    }

    /// Not ready yet, and not stuck either.
    pub(crate) fn starting(&self, status: &str, patience: Duration) {
        self.extend(&format!("STATUS={status}"), patience);
    }

    /// Stopping; requests this much time.
    pub(crate) fn stopping(&self, patience: Duration) {
        self.extend("STOPPING=1\nSTATUS=draining", patience);
    }

    fn extend(&self, state: &str, patience: Duration) {
        self.notify(&format!(
            "{state}\nEXTEND_TIMEOUT_USEC={}",
            patience.as_micros()
        ));
    }

    fn notify(&self, state: &str) {
        let Some(socket) = &self.socket else {
            return;
        };
        if let Err(error) = socket.send(state.as_bytes()) {
            tracing::debug!("the service manager did not receive {state:?}: {error}");
        }
    }
}

/// A name that begins with `@` is in the abstract namespace.
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that does not read must not stop us.
    socket.set_nonblocking(true)?;
    Ok(socket)
}
