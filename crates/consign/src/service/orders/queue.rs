//! The queue of orders in the database.

use consign_kernel::{Error, Store};
use consign_orders::{QUEUE, queue_policy};

use crate::{
    config::Config,
    service::own_queue::{OwnQueue, Put},
};

/// Makes the queue of orders, or changes it to what the settings say.
pub(in crate::service) async fn put(store: &dyn Store, config: &Config) -> Result<Put, Error> {
    let settings = &config.settings.orders;
    if !settings.enabled {
        return Ok(Put::AsItIs);
    }
    let queue = OwnQueue {
        name: QUEUE.parse()?,
        policy: queue_policy(&settings.options),
        is_said: settings.is_said,
        policy_said: settings.policy_said.clone(),
    };
    queue.put(store, config).await
}
