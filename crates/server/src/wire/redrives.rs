//! Moving messages by filter.

use consign_kernel::{DeadLetter, MessageSummary, QueueName, Redrive, RedriveAction, RedrivePlan};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shapes;

/// Which messages to move.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRedriveBody {
    /// What to do: requeue or discard dead messages, or cancel the ready and waiting ones of a queue.
    #[serde(default)]
    #[schema(value_type = shapes::RedriveAction)]
    action: RedriveAction,
    /// Only this queue. Required to cancel.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    queue: Option<QueueName>,
    /// Only messages dead with this code.
    #[serde(default)]
    code: Option<String>,
    /// At most this many a second.
    #[serde(default)]
    rate_per_second: Option<u32>,
    /// At most this many.
    #[serde(default)]
    limit: Option<u64>,
    /// Only returns a preview.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The reason, for the audit log. Not needed to look.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

impl StartRedriveBody {
    /// The plan, without the reason.
    pub(crate) fn plan(&self) -> RedrivePlan {
        RedrivePlan {
            action: self.action,
            queue: self.queue.clone(),
            code: self.code.clone(),
            rate_per_second: self.rate_per_second,
            limit: self.limit,
        }
    }
}

/// What a redrive would move.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedrivePreview {
    #[schema(value_type = shapes::RedrivePlan)]
    pub(crate) plan: RedrivePlan,
    /// How many messages it would take.
    pub(crate) count: u64,
    /// Whether there may be more than `count`: counting stopped there.
    pub(crate) or_more: bool,
    /// The first of them, by ascending id. Empty for a redrive that cancels.
    #[schema(value_type = Vec<shapes::DeadLetter>)]
    pub(crate) samples: Vec<DeadLetter>,
    /// The same for a redrive that cancels.
    #[schema(value_type = Vec<shapes::MessageSummaryBody>)]
    pub(crate) open_samples: Vec<MessageSummary>,
}

/// Redrives, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RedriveList {
    #[schema(value_type = Vec<shapes::Redrive>)]
    pub(crate) redrives: Vec<Redrive>,
}
