//! The lane of orders in the database.

use consign_kernel::{Error, Store};
use consign_orders::{LANE, lane_policy};

use crate::{
    config::Config,
    service::own_lane::{OwnLane, Put},
};

/// Makes the lane of orders, or changes it to what the settings say.
pub(in crate::service) async fn put(store: &dyn Store, config: &Config) -> Result<Put, Error> {
    let settings = &config.settings.orders;
    if !settings.enabled {
        return Ok(Put::AsItIs);
    }
    let lane = OwnLane {
        name: LANE.parse()?,
        policy: lane_policy(&settings.options),
        is_said: settings.is_said,
        policy_said: settings.policy_said.clone(),
    };
    lane.put(store, config).await
}
