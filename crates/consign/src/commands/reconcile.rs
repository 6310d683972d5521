//! `consign reconcile`: compares the outbox of memories with its audits, and repairs what may be.

use std::time::Duration;

use clap::Args;
use consign_memory::ReconcileOptions;

use crate::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
};

/// Compare the outbox of memories with its audits; exit code 1 if something is left that does not fit.
///
/// Writes audits that are missing, frees leases that nobody renews, and ends audits that hang. It
/// never changes what became of a memory.
#[derive(Args, Debug)]
pub(crate) struct Reconcile {
    /// Repair and end; the default
    #[arg(long, conflicts_with = "report")]
    once: bool,
    /// Only say what does not fit
    #[arg(long)]
    report: bool,
    /// How far back to look
    #[arg(long, value_name = "HOURS", default_value_t = 24,
        value_parser = clap::value_parser!(u64).range(1..=8784), allow_negative_numbers = true)]
    scan_window: u64,
    /// How many of each kind to look at in one transaction
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    batch_size: u32,
    /// How long ago a lease must have been renewed last to be stale [default: as configured]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(60..=86400), allow_negative_numbers = true)]
    stale_threshold: Option<u64>,
    /// As --report
    #[arg(long)]
    no_auto_fix: bool,
    /// Leave stale leases alone
    #[arg(long)]
    no_reschedule: bool,
    /// How long a memory rests whose lease was freed
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=86400), allow_negative_numbers = true)]
    reschedule_delay: u64,
}

impl Reconcile {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let config = context.config(Flags::new())?;
        let configured = config.settings.memory.options.reconcile();
        let stale_after = self.stale_threshold.map(Duration::from_secs);
        let options = ReconcileOptions {
            scan_window: Duration::from_secs(self.scan_window * 3_600),
            batch: self.batch_size,
            stale_after: stale_after.unwrap_or(configured.stale_after),
            is_repairing: !self.report && !self.no_auto_fix,
            is_rescheduling: !self.no_reschedule,
            reschedule_delay: Duration::from_secs(self.reschedule_delay),
            ..configured
        };
        let logbook = context.open().await?.memory;
        let report = consign_memory::reconcile(&*logbook, &options).await?;
        match context.out.is_json() {
            true => context.out.json(&report)?,
            false => context.out.line(&report)?,
        }
        Ok(match report.is_repaired() {
            true => Exit::Fine,
            false => Exit::Wrong,
        })
    }
}
