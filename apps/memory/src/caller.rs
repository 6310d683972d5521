//! Callers of the gateway.

/// A caller, as authenticated by the transport.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user to whom the token is bound: the caller acts only as this user. `None`: a shared
    /// token, or no token.
    pub actor: Option<String>,
    /// Whether a valid token was required and presented.
    pub is_authenticated: bool,
    /// Whether the token may change settings.
    pub is_admin: bool,
    /// Correlation id, if the transport assigned one.
    pub correlation_id: Option<String>,
}

impl Caller {
    /// A caller of a gateway without tokens.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Whether the token is bound to a user: only then are private spaces protected.
    pub(crate) fn is_bound(&self) -> bool {
        self.is_authenticated && self.actor.is_some()
    }

    /// The same caller with this correlation id.
    pub fn in_request(self, correlation_id: impl Into<String>) -> Self {
        Self {
            correlation_id: Some(correlation_id.into()),
            ..self
        }
    }
}
