//! `consign report`: how reliable the gateway of memories has been.

use clap::Args;
use consign_memory::ReliabilityReport;
use jiff::Timestamp;

use crate::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
    service::Memory,
};

/// Show the reliability report of the gateway of memories: the outbox, its audits, evidence.
#[derive(Args, Debug)]
pub(crate) struct Report {}

impl Report {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let memory = Memory::prepare(&context.config(Flags::new())?)?;
        let opened = context.open().await?;
        let counts = opened.memory.memory_counts().await?;
        let backend = memory.map(|memory| memory.backend(&opened).identity());
        let backend = backend.unwrap_or_default();
        let report = ReliabilityReport::new(&counts, &backend, Timestamp::now());
        // One shape for people and programs: it is what agents get from `reliability_report`.
        context.out.json(&report)?;
        Ok(Exit::Fine)
    }
}
