//! SIGHUP: the configuration is read again. Policies change at once; the rest needs a restart, and
//! those are logged.

use consign_kernel::{Error, QueueName, Store};

use consign_app::queue::PutResult;

use super::queues;
use crate::config::{Config, Settings, Sources};

/// Reads the configuration again and applies what can be. A configuration that does not fit is
/// logged and changes nothing.
pub(super) async fn reload(config: &mut Config, sources: &Sources, store: &dyn Store) {
    let fresh = match Config::load(sources) {
        Ok(fresh) => fresh,
        Err(failure) => {
            tracing::error!(
                "the new configuration was not applied: {}",
                failure.message()
            );
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
            tracing::error!("the new configuration was not applied: {error}");
            return;
        }
    }
    let restart = config.differs_beyond_policies(&fresh);
    if !restart.is_empty() {
        tracing::warn!("these changes need a restart: {}", restart.join(", "));
    }
    // What needs a restart stays different, so that it is logged again the next time.
    config.take_policies(fresh);
}

/// Writes the policies of all queues; answers with those that were changed.
async fn put(store: &dyn Store, config: &Config) -> Result<Vec<QueueName>, Error> {
    let settings = Settings::of(config)
        .map_err(|failure| Error::invalid("the configuration", failure.message().to_owned()))?;
    let mut changed = queues::put(store, config, &settings).await?;
    for queue in config.apps().filter_map(|app| app.queue(config)) {
        if let PutResult::Set(queue) = queue.put(store, config).await? {
            changed.push(queue);
        }
    }
    Ok(changed)
}
