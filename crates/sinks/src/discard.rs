//! The sink that delivers by doing nothing.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::QueueName;
use consign_worker::{Delivery, Sink, Verdict};
use serde::{Deserialize, Serialize};

use crate::{SinkError, config::Kind};

/// `kind = "discard"`: every message counts as delivered at once and is dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DiscardConfig {}

impl Kind for DiscardConfig {
    const SECRETS: &'static [&'static str] = &[];

    async fn build(&self, _queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        Ok(Arc::new(Discard))
    }
}

#[derive(Debug)]
struct Discard;

#[async_trait]
impl Sink for Discard {
    fn kind(&self) -> &'static str {
        "discard"
    }

    fn destination(&self) -> &str {
        "nowhere"
    }

    async fn deliver(&self, _delivery: &Delivery) -> Verdict {
        Verdict::delivered()
    }
}
