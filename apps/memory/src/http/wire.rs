//! JSON shapes of the gateway's answers.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// An error: `ok` and `success` (false), `action` (`reject`, or `error` if the request was not the
/// cause), `error` (for people), `error_code`, `correlation_id`, `retryable`, and further fields of
/// the tool. For a JSON-RPC request: its error object.
#[derive(ToSchema)]
#[schema(value_type = Object)]
#[expect(dead_code, reason = "described, never constructed")]
pub(super) struct AgentFailure(Map<String, Value>);

/// Health of the memory gateway.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct Greeting {
    /// Always true.
    ok: bool,
    /// `ok`, or `starting` while there is no database yet.
    status: &'static str,
    /// `memory-gateway`.
    service: &'static str,
}

impl Greeting {
    pub(super) const SERVING: Self = Self::new("ok");
    pub(super) const STARTING: Self = Self::new("starting");

    const fn new(status: &'static str) -> Self {
        Self {
            ok: true,
            status,
            service: "memory-gateway",
        }
    }
}
