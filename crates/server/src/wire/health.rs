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

/// That the gateway of memories answers, in the words of its contract.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct Greeting {
    /// Always true.
    ok: bool,
    /// `ok`, or `starting` while there is no database yet.
    status: &'static str,
    /// `memory-gateway`.
    service: &'static str,
}

impl Greeting {
    pub(crate) const SERVING: Self = Self::new("ok");
    pub(crate) const STARTING: Self = Self::new("starting");

    const fn new(status: &'static str) -> Self {
        Self {
            ok: true,
            status,
            service: "memory-gateway",
        }
    }
}
