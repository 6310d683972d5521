//! The lane of orders in the database.

use consign_kernel::{By, Error, LaneName, Store};
use consign_orders::{LANE, lane_policy};

use crate::config::Config;

/// Who sets the lane, in the audit.
const ACTOR: &str = "config file";

/// What became of the lane.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::service) enum Put {
    /// It was made, or changed to what the settings say.
    Set(LaneName),
    /// It is as it is to be, or as somebody with more rights wants it.
    AsItIs,
    /// It is not there, and this login may not make it: orders are others' business.
    LeftToOthers,
}

/// Makes the lane of orders, or changes it to what the settings say.
///
/// A login that may not is no obstacle where nobody asked for orders; where somebody did, it is told
/// what would help.
pub(in crate::service) async fn put(store: &dyn Store, config: &Config) -> Result<Put, Error> {
    let settings = &config.settings.orders;
    if !settings.enabled {
        return Ok(Put::AsItIs);
    }
    let name: LaneName = LANE.parse()?;
    let policy = lane_policy(&settings.options);
    let before = store.lane(&name).await?;
    if before
        .as_ref()
        .is_some_and(|before| before.policy == policy)
    {
        return Ok(Put::AsItIs);
    }
    let said = match &config.file {
        Some(file) => format!("[orders] of {} says so", file.display()),
        None => "the settings of orders say so".to_owned(),
    };
    match store.put_lane(&name, &policy, &By::new(ACTOR, &said)).await {
        Ok(_) => Ok(Put::Set(name)),
        Err(Error::Forbidden { what }) if settings.is_said => Err(Error::Forbidden {
            what: format!(
                "lane {LANE} is not as [orders] says, and setting it needs the role \
                 consign_operator: let an operator start `consign serve` once with these settings, \
                 or set orders.enabled = false here ({what})"
            ),
        }),
        Err(Error::Forbidden { .. }) if before.is_some() => Ok(Put::AsItIs),
        Err(Error::Forbidden { .. }) => Ok(Put::LeftToOthers),
        Err(error) => Err(error),
    }
}
