//! One turn for each server that this process writes to, whoever writes.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex as StdMutex, PoisonError},
};

use tokio::sync::Mutex;

static TURNS: LazyLock<StdMutex<HashMap<String, Arc<Mutex<()>>>>> =
    LazyLock::new(StdMutex::default);

/// The turn of a server. Never forgotten: a process knows a handful of servers.
pub(super) fn of(destination: &str) -> Arc<Mutex<()>> {
    let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(turns.entry(destination.to_owned()).or_default())
}
