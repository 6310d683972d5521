//! `consign report`: the reliability report of the memory gateway.

use clap::Args;
use consign_app::{
    App as _,
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
};
use jiff::Timestamp;

use crate::{
    ReliabilityReport,
    app::{MemoryApp, MemoryAppService, logbook},
};

/// Show the reliability report of the memory gateway: the outbox, its audits, evidence.
#[derive(Args, Debug)]
pub(crate) struct Report {}

impl Report {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let config = context.config(Flags::new())?;
        let is_on = config.is_on(MemoryApp.name());
        let memory = is_on
            .then(|| MemoryAppService::prepare(&config))
            .transpose()?;
        let database = context.open_with(&config).await?;
        let counts = logbook(&database).memory_counts().await?;
        let backend = memory.map(|memory| memory.backend(&database).identity());
        let backend = backend.unwrap_or_default();
        let report = ReliabilityReport::new(&counts, &backend, Timestamp::now());
        // The same JSON as the tool `reliability_report`.
        context.out.json(&report)?;
        Ok(Exit::Fine)
    }
}
