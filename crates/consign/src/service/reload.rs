//! SIGHUP: the configuration is read again. Policies change at once; the rest needs a restart, and
//! that is said.

use consign_kernel::{Error, QueueName, Store};

use super::{memory, orders, own_queue::Put, payments, queues};
use crate::config::{Config, Sources};

/// Reads the configuration again and applies what can be. A configuration that does not fit is
/// logged and changes nothing.
pub(super) async fn reload(config: &mut Config, sources: &Sources, store: &dyn Store) {
    let fresh = match Config::load(sources) {
        Ok(fresh) => fresh,
        Err(failure) => {
            tracing::error!("the configuration was not taken: {}", failure.message());
            return;
        }
    };
    match put(store, &fresh).await {
        Ok(changed) if changed.is_empty() => {
            tracing::info!("configuration read again; no queue's policy differs");
        }
        Ok(changed) => {
            let names: Vec<&str> = changed.iter().map(|queue| queue.as_str()).collect();
            tracing::info!(
                "configuration read again; policy set for {}",
                names.join(", ")
            );
        }
        Err(error) => {
            tracing::error!("the configuration was not taken: {error}");
            return;
        }
    }
    let restart = config.differs_beyond_policies(&fresh);
    if !restart.is_empty() {
        tracing::warn!("these changes need a restart: {}", restart.join(", "));
    }
    // What needs a restart stays different, so that it is said again the next time.
    config.take_policies(fresh);
}

/// Writes the policies of all queues; answers with those that were changed.
async fn put(store: &dyn Store, config: &Config) -> Result<Vec<QueueName>, Error> {
    let mut changed = queues::put(store, config).await?;
    let puts = [
        orders::put(store, config).await?,
        payments::put(store, config).await?,
        memory::put(store, config).await?,
    ];
    changed.extend(puts.into_iter().filter_map(|put| match put {
        Put::Set(queue) => Some(queue),
        Put::AsItIs | Put::LeftToOthers | Put::NotGranted => None,
    }));
    Ok(changed)
}
