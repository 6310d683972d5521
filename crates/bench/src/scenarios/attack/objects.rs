//! Bodies of a million tiny objects, each of which takes a hundred times its text once it is built.

use anyhow::Result;
use async_trait::async_trait;

use super::{Attack, Target};

pub(super) struct Objects;

#[async_trait]
impl Attack for Objects {
    fn name(&self) -> &'static str {
        "objects"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let objects = "{\"\":0},".repeat((8 * 1024 * 1024 - 200) / 7);
        let as_payload = format!("{{\"payload\": [{objects}0]}}");
        let as_headers = format!("{{\"payload\": 0, \"headers\": {{\"x\": [{objects}0]}}}}");
        let as_arguments =
            format!("{{\"tool\": \"memory_store\", \"arguments\": {{\"x\": [{objects}0]}}}}");
        let path = "/v1/queues/attacked/messages";
        tokio::join!(
            target.flood(4, path, &as_payload),
            target.flood(4, path, &as_headers),
            target.flood(4, "/mcp", &as_arguments),
        );
        Ok(())
    }
}
