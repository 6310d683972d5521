//! Legal payloads of many small values: 960 kB of zeros.

use anyhow::Result;
use async_trait::async_trait;

use super::{Attack, Target};

pub(super) struct Zeros;

#[async_trait]
impl Attack for Zeros {
    fn name(&self) -> &'static str {
        "zeros"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let body = zeros(960_000);
        target
            .flood(16, "/v1/queues/attacked/messages", &body)
            .await;
        Ok(())
    }
}

/// A message whose payload is a list of zeros and takes about so many bytes.
pub(super) fn zeros(bytes: usize) -> String {
    let list = "0,".repeat(bytes / 2);
    format!("{{\"payload\": [{}0]}}", list)
}
