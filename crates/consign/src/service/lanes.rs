//! Lanes of the configuration: into the database, and tied to their sinks.

use consign_kernel::{By, Error, LaneName, LanePolicy, Store};
use consign_worker::LaneWork;

use crate::{
    config::{Config, LaneConfig, Origin},
    failure::{Exit, Failure},
};

/// Who changes lanes on behalf of the file, in the audit.
const ACTOR: &str = "config file";

/// Writes what the configuration says about its lanes, where the database says something else, and
/// answers with the lanes that were changed.
pub(crate) async fn put(store: &dyn Store, config: &Config) -> Result<Vec<LaneName>, Error> {
    let said = match &config.file {
        Some(file) => format!("{} says so", file.display()),
        None => "a lane to try things with".to_owned(),
    };
    let by = By::new(ACTOR, &said);
    let mut changed = Vec::new();
    for lane in &config.settings.lanes {
        let before = store.lane(&lane.name).await?;
        let policy = match &before {
            Some(before) => lane.policy(&before.policy),
            None => lane.policy(&LanePolicy::default()),
        };
        if before.is_none_or(|before| before.policy != policy) {
            store.put_lane(&lane.name, &policy, &by).await?;
            changed.push(lane.name.clone());
        }
    }
    Ok(changed)
}

/// The lanes that have a sink, each with its sink.
pub(crate) async fn work(config: &Config) -> Result<Vec<LaneWork>, Failure> {
    let mut work = Vec::new();
    for lane in &config.settings.lanes {
        let Some(sink) = &lane.sink else {
            continue;
        };
        let sink = sink.build(&lane.name).await.map_err(|error| {
            let place = place(config, lane);
            let message = format!("{place}lanes.{}.sink: {error}", lane.name);
            Failure::new(Exit::Usage, "config", message)
        })?;
        work.push(LaneWork::new(lane.name.clone(), sink));
    }
    Ok(work)
}

fn place(config: &Config, lane: &LaneConfig) -> String {
    match config.origin_of(&["lanes", lane.name.as_str(), "sink"]) {
        Some(origin @ Origin::File { .. }) => format!("{origin}: "),
        _ => String::new(),
    }
}
