//! Payloads eight times as large as the queue allows, as large as a body may be.

use anyhow::Result;
use async_trait::async_trait;

use super::{Attack, Target, zeros::zeros};

pub(super) struct OversizedBodies;

#[async_trait]
impl Attack for OversizedBodies {
    fn name(&self) -> &'static str {
        "oversized"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let body = zeros(8 * 1024 * 1024 - 100);
        target
            .flood(10, "/v1/queues/attacked/messages", &body)
            .await;
        Ok(())
    }
}
