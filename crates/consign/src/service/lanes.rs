//! Lanes of the configuration: into the database, and tied to their sinks.

use consign_kernel::{By, Error, LaneName, LanePolicy, Store};
use consign_sinks::SinkConfig;
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
            let put = store.put_lane(&lane.name, &policy, &by).await;
            put.map_err(|error| explained(error, &lane.name))?;
            changed.push(lane.name.clone());
        }
    }
    Ok(changed)
}

/// A login that may not set lanes is told what would help.
fn explained(error: Error, lane: &LaneName) -> Error {
    match error {
        Error::Forbidden { what } => Error::Forbidden {
            what: format!(
                "lane {lane} is not as the configuration says, and setting it needs the role \
                 consign_operator: let an operator set it, or take its policy out of the \
                 configuration ({what})"
            ),
        },
        error => error,
    }
}

/// The lanes that have a sink, each with its sink.
///
/// Each has an instance of its own, because sinks name the lane in what they send; but those with
/// equal settings deliver to the same place, which is up or down for all of them.
pub(crate) async fn work(config: &Config) -> Result<Vec<LaneWork>, Failure> {
    let (mut work, mut wrong) = (Vec::new(), Vec::new());
    let mut before: Vec<(&LaneName, &SinkConfig)> = Vec::new();
    for lane in &config.settings.lanes {
        let Some(settings) = &lane.sink else {
            continue;
        };
        let sink = match settings.build(&lane.name).await {
            Ok(sink) => sink,
            Err(error) => {
                let place = place(config, lane);
                wrong.push(format!("{place}lanes.{}.sink: {error}", lane.name));
                continue;
            }
        };
        let twin = before.iter().find(|(_, other)| *other == settings);
        work.push(LaneWork {
            same_destination_as: twin.map(|(name, _)| (*name).clone()),
            ..LaneWork::new(lane.name.clone(), sink)
        });
        before.push((&lane.name, settings));
    }
    if !wrong.is_empty() {
        return Err(Failure::new(Exit::Usage, "config", wrong.join("\n")));
    }
    Ok(work)
}

fn place(config: &Config, lane: &LaneConfig) -> String {
    match config.origin_of(&["lanes", lane.name.as_str(), "sink"]) {
        Some(origin @ Origin::File { .. }) => format!("{origin}: "),
        _ => String::new(),
    }
}
