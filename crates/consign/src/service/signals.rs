//! Being told to stop, and to read the configuration again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Exit;

/// What somebody told the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// To end; the exit code is for one who says it twice.
    Stop(Exit),
    /// To read the configuration again.
    Reload,
}

/// The handlers. The kernel ignores signals to process 1 that have none, so they are installed
/// before anything else is done.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Told {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Told::Stop(Exit::Terminated),
            _ = self.interrupt.recv() => Told::Stop(Exit::Interrupted),
            _ = self.hangup.recv() => Told::Reload,
        }
    }

    /// The next one that asks to end. One that asks to read the configuration stays for `next`.
    pub(crate) async fn stop(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.interrupt.recv() => Exit::Interrupted,
        }
    }
}
