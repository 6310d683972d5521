//! Signals: stop, and reload the configuration.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Exit;

/// The action of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// Stop; the exit code is that of a second one.
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
    pub(crate) async fn next(&mut self) -> SignalAction {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => SignalAction::Stop(Exit::Terminated),
            _ = self.interrupt.recv() => SignalAction::Stop(Exit::Interrupted),
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }

    /// The next stop signal. A reload signal stays for `next`.
    pub(crate) async fn stop(&mut self) -> Exit {
        tokio::select! {
            _ = self.terminate.recv() => Exit::Terminated,
            _ = self.interrupt.recv() => Exit::Interrupted,
        }
    }
}
