//! `consign pause` and `consign resume`: whether a lane may be claimed from.

use clap::Args;
use consign_kernel::{Lane, LaneName};

use crate::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
};

/// Stop claims from a lane; leases in flight may finish.
#[derive(Args, Debug)]
pub(crate) struct Pause {
    /// The lane
    lane: LaneName,
    #[command(flatten)]
    by: ByArgs,
}

/// Let a lane be claimed again.
#[derive(Args, Debug)]
pub(crate) struct Resume {
    /// The lane
    lane: LaneName,
    #[command(flatten)]
    by: ByArgs,
}

impl Pause {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("paused by hand");
        let lane = store.pause(&self.lane, &by).await?;
        report(context, &lane)
    }
}

impl Resume {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("resumed by hand");
        let lane = store.resume(&self.lane, &by).await?;
        report(context, &lane)
    }
}

fn report(context: &Context, lane: &Lane) -> Result<Exit, Failure> {
    let name = &lane.name;
    if context.out.is_json() {
        context.out.json(lane)?;
    } else if lane.paused_at.is_some() {
        context.out.line(format_args!(
            "lane {name} is paused; leases in flight may finish. `consign resume {name}` ends it"
        ))?;
    } else {
        context.out.line(format_args!("lane {name} is running"))?;
    }
    Ok(Exit::Fine)
}
