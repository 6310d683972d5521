//! `consign reconcile`: reconciles the outbox of memories with its audits.

use std::time::Duration;

use clap::Args;
use consign_app::{
    config::{Flags, failure},
    context::Context,
    failure::{Exit, Failure},
    progress::Progress,
};

use crate::{
    ReconcileOptions,
    app::{logbook, options},
};

/// Compare the outbox of memories with its audits; exit code 1 if differences remain.
///
/// Writes missing audits, ends stale leases, and ends hanging audits. It never changes the outcome of a
/// memory.
#[derive(Args, Debug)]
pub(crate) struct Reconcile {
    /// Repair once and exit; the default
    #[arg(long, conflicts_with = "report")]
    once: bool,
    /// Only report differences
    #[arg(long)]
    report: bool,
    /// Time range of the scan
    #[arg(long, value_name = "HOURS", default_value_t = 24,
        value_parser = clap::value_parser!(u64).range(1..=8784), allow_negative_numbers = true)]
    scan_window: u64,
    /// Maximum rows of each kind per transaction
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    batch_size: u32,
    /// Age of the last renewal after which a lease is stale [default: as configured]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(60..=86400), allow_negative_numbers = true)]
    stale_threshold: Option<u64>,
    /// Same as --report
    #[arg(long)]
    no_auto_fix: bool,
    /// Do not end stale leases
    #[arg(long)]
    no_reschedule: bool,
    /// Delay of a memory whose lease was ended
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=86400), allow_negative_numbers = true)]
    reschedule_delay: u64,
}

impl Reconcile {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let config = context.config(Flags::new())?;
        let options = options(&config).map_err(|problem| failure(&[problem]))?;
        let configured = options.reconcile();
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
        let logbook = logbook(&context.open_with(&config).await?);
        let progress = Progress::busy("comparing rows with their audits", context.out.is_json());
        let report = crate::reconcile(&*logbook, &options).await?;
        progress.clear();
        if context.out.is_json() {
            context.out.json(&report)?
        } else {
            context.out.line(&report)?
        }
        Ok(if report.is_repaired() {
            Exit::Fine
        } else {
            Exit::Wrong
        })
    }
}
