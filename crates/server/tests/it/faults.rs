//! A store that fails on demand.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use consign_kernel::{Certainty, Error, Layer, LayeredStore, Result, Store};
use tokio::sync::Semaphore;

/// What shall go wrong with an operation.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It does not happen.
    Refused,
    /// It does not happen: another transaction holds what it needs.
    Locked,
    /// It happens, and its reply is lost.
    ReplyLost,
    /// It panics.
    Panics,
    /// It happens once the semaphore lets it.
    Waits(Arc<Semaphore>),
    /// It blocks its thread until the fault is cleared, or for ten seconds.
    Blocks,
}

/// A store around another, with faults by operation.
pub(crate) type FaultyStore = LayeredStore<FaultLayer>;

pub(crate) struct FaultLayer {
    inner: Arc<dyn Store>,
    faults: Mutex<HashMap<&'static str, Fault>>,
    calls: Mutex<HashMap<&'static str, usize>>,
}

impl From<Arc<dyn Store>> for FaultLayer {
    fn from(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            faults: Mutex::default(),
            calls: Mutex::default(),
        }
    }
}

impl FaultLayer {
    pub(crate) fn inject(&self, operation: &'static str, fault: Fault) {
        self.faults.lock().unwrap().insert(operation, fault);
    }

    pub(crate) fn mend(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// How often an operation was called.
    pub(crate) fn calls(&self, operation: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.get(operation).copied().unwrap_or(0)
    }
}

#[async_trait]
impl Layer for FaultLayer {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        *self.calls.lock().unwrap().entry(operation).or_default() += 1;
        let fault = self.faults.lock().unwrap().get(operation).cloned();
        match fault {
            Some(Fault::Refused) => Err(unavailable(operation, Certainty::Definite)),
            Some(Fault::Locked) => Err(Error::Locked {
                attempted: operation,
            }),
            Some(Fault::Panics) => panic!("{operation} panics on demand"),
            Some(Fault::Waits(gate)) => {
                gate.acquire().await.unwrap().forget();
                Ok(())
            }
            Some(Fault::Blocks) => {
                let since = Instant::now();
                let is_broken = || self.faults.lock().unwrap().contains_key(operation);
                while is_broken() && since.elapsed() < Duration::from_secs(10) {
                    std::thread::yield_now();
                }
                Ok(())
            }
            Some(Fault::ReplyLost) | None => Ok(()),
        }
    }

    async fn after(&self, operation: &'static str, succeeded: bool) -> Result<()> {
        match self.faults.lock().unwrap().get(operation) {
            Some(Fault::ReplyLost) if succeeded => Err(unavailable(operation, Certainty::Unknown)),
            _ => Ok(()),
        }
    }
}

fn unavailable(attempted: &'static str, certainty: Certainty) -> Error {
    Error::Unavailable {
        attempted,
        certainty,
        source: "the cable is cut (secret-host:5432)".into(),
    }
}
