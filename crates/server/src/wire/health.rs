//! Whether the server can do its work.

use serde::Serialize;
use utoipa::ToSchema;

/// Whether the server is ready.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ready`, or `not_ready`.
    pub(crate) status: &'static str,
    /// Of the program.
    pub(crate) version: &'static str,
    /// Why the server is not ready.
    pub(crate) reasons: Vec<String>,
}

/// That the process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthBody {
    /// `alive`.
    pub(crate) status: &'static str,
}
