//! Problems, and acknowledging them.

use consign_kernel::OpenProblem;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shapes;

/// What is wrong now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemList {
    /// The database's clock.
    #[schema(value_type = String)]
    pub(crate) now: Timestamp,
    /// The worst first, the acknowledged last.
    #[schema(value_type = Vec<shapes::OpenProblem>)]
    pub(crate) problems: Vec<ProblemView>,
}

/// A problem, and the page where it is fixed.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemView {
    #[serde(flatten)]
    pub(crate) problem: OpenProblem,
    pub(crate) path: String,
}

/// A problem to acknowledge.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcknowledgeBody {
    /// Its key, as listed.
    pub(crate) problem: String,
    /// For how long, 30 days at most.
    pub(crate) for_ms: u64,
    /// The reason, for the audit log and the list of problems.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// A problem whose acknowledgement ends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReopenBody {
    /// Its key, as listed.
    pub(crate) problem: String,
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// Whether there was an acknowledgement.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reopened {
    pub(crate) reopened: bool,
}
