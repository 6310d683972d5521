//! Whether the server can do its work.

use serde::Serialize;
use utoipa::ToSchema;

/// How the server is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ready`, or `not_ready`.
    pub(crate) status: &'static str,
    /// Of the program.
    pub(crate) version: &'static str,
    /// What stands in the way.
    pub(crate) reasons: Vec<String>,
}

/// That the process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Alive {
    /// `alive`.
    pub(crate) status: &'static str,
}
