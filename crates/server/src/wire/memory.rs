//! What the gateway of memories answers with, for the OpenAPI document only.
#![expect(dead_code, reason = "described, never constructed")]

use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What went wrong: `ok` and `success` (false), `action` (`reject`, or `error` if it was not the
/// request), `error` (for people), `error_code`, `correlation_id`, `retryable`,
/// and whatever else the tool says. Where the request was one of JSON-RPC: its error object.
#[derive(ToSchema)]
#[schema(value_type = Object)]
pub(crate) struct AgentFailure(Map<String, Value>);
