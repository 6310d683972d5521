//! Erasing messages.

use consign_kernel::{ErasureResult, ErasureTarget, MessageId, PAGE_ENTRIES_MAX, QueueName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shapes;
use crate::problem::{Problem, codes};

/// Which messages to erase: `ids`, or `queue` and `key`, or `correlation_id`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EraseBody {
    /// These; 1,000 at most.
    #[schema(value_type = Option<Vec<i64>>)]
    ids: Option<Vec<MessageId>>,
    /// The queue of the key.
    #[schema(value_type = Option<String>)]
    queue: Option<QueueName>,
    /// The message that has this key.
    key: Option<String>,
    /// The first 1,000 messages with this header `correlation_id`.
    correlation_id: Option<String>,
    /// With `correlation_id`: only messages with greater ids, the `next` of the answer before.
    after: Option<i64>,
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

impl EraseBody {
    /// The one target that the body names.
    pub(crate) fn target(self) -> Result<ErasureTarget, Problem> {
        let Self {
            ids,
            queue,
            key,
            correlation_id,
            after,
            ..
        } = self;
        match (ids, queue, key, correlation_id, after) {
            (Some(ids), None, None, None, None) => {
                let batch_max = PAGE_ENTRIES_MAX;
                if ids.len() > batch_max as usize {
                    let detail = format!("{} ids; one call erases {batch_max}", ids.len());
                    let problem = Problem::new(codes::BATCH_TOO_LARGE, detail);
                    return Err(problem.with("batch_max", batch_max));
                }
                Ok(ErasureTarget::Ids(ids))
            }
            (None, Some(queue), Some(key), None, None) => Ok(ErasureTarget::Key { queue, key }),
            (None, None, None, Some(id), after) => Ok(ErasureTarget::Correlation {
                id,
                after: after.map(MessageId),
            }),
            _ => Err(Problem::invalid(
                "messages",
                "give ids, or queue and key, or correlation_id (with after)",
            )),
        }
    }
}

/// The result of each erasure, by message id.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EraseAnswer {
    #[schema(value_type = Vec<shapes::ErasureResultBody>)]
    pub(crate) messages: Vec<ErasureResult>,
    /// What to give as `after` for the next messages of the correlation id; null if there are none.
    #[schema(value_type = Option<i64>)]
    pub(crate) next: Option<MessageId>,
}
