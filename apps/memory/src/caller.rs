//! Who calls.

/// Who calls the gateway, as far as the transport knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whom the caller's token belongs to: they act as nobody else. None: a token of several, or
    /// no token at all.
    pub actor: Option<String>,
    /// Whether the gateway asked for a token and was given a good one.
    pub is_authenticated: bool,
    /// Whether the token may change settings.
    pub is_admin: bool,
    /// The request's name, if the transport has given it one already.
    pub correlation_id: Option<String>,
}

impl Caller {
    /// Somebody who was not asked for a token.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Whether a token says who calls: only then does a name close anything.
    pub(crate) fn is_bound(&self) -> bool {
        self.is_authenticated && self.actor.is_some()
    }

    /// The same caller in this request.
    pub fn in_request(self, correlation_id: impl Into<String>) -> Self {
        Self {
            correlation_id: Some(correlation_id.into()),
            ..self
        }
    }
}
