//! `consign bench`: throughput and latency on this machine.

use clap::Args;

use crate::{
    context::Context,
    failure::{Exit, Failure},
};

/// Measure throughput and latency.
#[derive(Args, Debug)]
pub(crate) struct Bench {}

impl Bench {
    pub(crate) async fn run(self, _context: &Context) -> Result<Exit, Failure> {
        Ok(Exit::Fine)
    }
}
