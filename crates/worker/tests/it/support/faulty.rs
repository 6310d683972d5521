//! A store that fails on demand, and counts its calls.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use consign_kernel::{Certainty, Error, Layer, LayeredStore, Result, Store};

use super::Gate;

/// Another store, with faults.
pub(crate) type FaultyStore = LayeredStore<FaultLayer>;

pub(crate) struct FaultLayer {
    inner: Arc<dyn Store>,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Faults {
    is_down: bool,
    /// Operations that are not let through.
    refused: HashSet<&'static str>,
    /// Operations that the database refuses this many times, for a reason of its own.
    forbidden: HashMap<&'static str, usize>,
    /// Operations that happen, but whose next answer is lost.
    unheard: HashSet<&'static str>,
    /// Operations that happen, but whose answers are held back.
    held_back: HashMap<&'static str, Gate>,
    calls: HashMap<&'static str, usize>,
}

impl From<Arc<dyn Store>> for FaultLayer {
    fn from(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            faults: Mutex::default(),
        }
    }
}

impl FaultLayer {
    /// Nothing is let through from now on, or everything is.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.faults.lock().unwrap().is_down = is_down;
    }

    /// This operation is not let through until allowed again.
    pub(crate) fn refuse(&self, operation: &'static str) {
        self.faults.lock().unwrap().refused.insert(operation);
    }

    pub(crate) fn allow(&self, operation: &'static str) {
        self.faults.lock().unwrap().refused.remove(operation);
    }

    /// The database refuses this operation the next `times`, although it is there.
    pub(crate) fn forbid(&self, operation: &'static str, times: usize) {
        let mut faults = self.faults.lock().unwrap();
        faults.forbidden.insert(operation, times);
    }

    /// The next answer of this operation is lost, after it happened.
    pub(crate) fn lose_answer(&self, operation: &'static str) {
        self.faults.lock().unwrap().unheard.insert(operation);
    }

    /// The answers of this operation wait for the gate, after it happened.
    pub(crate) fn hold_back(&self, operation: &'static str, gate: &Gate) {
        let mut faults = self.faults.lock().unwrap();
        faults.held_back.insert(operation, gate.clone());
    }

    /// How often an operation was called.
    pub(crate) fn calls(&self, operation: &'static str) -> usize {
        let faults = self.faults.lock().unwrap();
        faults.calls.get(operation).copied().unwrap_or_default()
    }

    pub(crate) fn all_calls(&self) -> usize {
        self.faults.lock().unwrap().calls.values().sum()
    }
}

#[async_trait]
impl Layer for FaultLayer {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        let mut faults = self.faults.lock().unwrap();
        *faults.calls.entry(operation).or_default() += 1;
        if let Some(times) = faults.forbidden.get_mut(operation)
            && *times > 0
        {
            *times -= 1;
            let what = format!("{operation} is not allowed in this test");
            return Err(Error::Forbidden { what });
        }
        if faults.is_down || faults.refused.contains(operation) {
            return Err(unavailable(operation, Certainty::Definite));
        }
        Ok(())
    }

    async fn after(&self, operation: &'static str, succeeded: bool) -> Result<()> {
        if !succeeded {
            return Ok(());
        }
        let gate = self
            .faults
            .lock()
            .unwrap()
            .held_back
            .get(operation)
            .cloned();
        if let Some(gate) = gate {
            gate.passed().await;
        }
        if self.faults.lock().unwrap().unheard.remove(operation) {
            return Err(unavailable(operation, Certainty::Unknown));
        }
        Ok(())
    }
}

fn unavailable(attempted: &'static str, certainty: Certainty) -> Error {
    Error::Unavailable {
        attempted,
        certainty,
        source: "a fault of the test".into(),
    }
}
