//! The lane of a protocol in the database.

use consign_kernel::{By, Error, LaneName, LanePolicy, Store};

use crate::config::Config;

/// Who sets the lane, in the audit.
const ACTOR: &str = "config file";

/// What became of the lane.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It was made, or changed to what the settings say.
    Set(LaneName),
    /// It is as it is to be, or as somebody with more rights wants it.
    AsItIs,
    /// It is not there, and this login may not make it: its messages are others' business.
    LeftToOthers,
}

/// A lane whose policy follows from a table of the configuration that has its name.
#[derive(Debug)]
pub(super) struct OwnLane {
    pub(super) name: LaneName,
    pub(super) policy: LanePolicy,
    /// Whether anybody said anything about it.
    pub(super) is_said: bool,
    /// Whether a lane that is there stays as it is while nobody has said anything about it.
    pub(super) is_shared: bool,
}

impl OwnLane {
    /// Makes the lane, or changes it to what the settings say.
    ///
    /// A login that may not is no obstacle where nobody asked for it; where somebody did, it is told
    /// what would help.
    pub(super) async fn put(self, store: &dyn Store, config: &Config) -> Result<Put, Error> {
        let Self { name, policy, .. } = self;
        let before = store.lane(&name).await?;
        let is_right = before
            .as_ref()
            .is_some_and(|before| before.policy == policy || (self.is_shared && !self.is_said));
        if is_right {
            return Ok(Put::AsItIs);
        }
        let said = match &config.file {
            Some(file) => format!("[{name}] of {} says so", file.display()),
            None => format!("the settings of {name} say so"),
        };
        match store.put_lane(&name, &policy, &By::new(ACTOR, &said)).await {
            Ok(_) => Ok(Put::Set(name)),
            Err(Error::Forbidden { what }) if self.is_said => Err(Error::Forbidden {
                what: format!(
                    "lane {name} is not as [{name}] says, and setting it needs the role \
                     consign_operator: let an operator start `consign serve` once with these \
                     settings, or set {name}.enabled = false here ({what})"
                ),
            }),
            Err(Error::Forbidden { .. }) if before.is_some() => Ok(Put::AsItIs),
            Err(Error::Forbidden { .. }) => Ok(Put::LeftToOthers),
            Err(error) => Err(error),
        }
    }
}
