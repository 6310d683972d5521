//! `consign report`: how reliable the gateway of memories has been.

use clap::Args;
use consign_memory::ReliabilityReport;
use jiff::Timestamp;

use crate::{
    context::Context,
    failure::{Exit, Failure},
};

/// Show the reliability report of the gateway of memories: the outbox, its audits, evidence.
#[derive(Args, Debug)]
pub(crate) struct Report {}

impl Report {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let logbook = context.open().await?.memory;
        let counts = logbook.memory_counts().await?;
        let report = ReliabilityReport::new(&counts, Timestamp::now());
        // One shape for people and programs: it is what agents get from `reliability_report`.
        context.out.json(&report)?;
        Ok(Exit::Fine)
    }
}
