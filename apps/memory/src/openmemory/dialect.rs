//! Detecting the dialect of a server.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Answer, OpenMemory};
use crate::{BackendError, Dialect};

/// A configured or detected dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialectState {
    /// The JavaScript server up to 1.3: the request names the user.
    Js1,
    /// Later JavaScript servers: the key determines the user, and any other is refused.
    JsHead,
    /// The Python server: single memories cannot be read.
    Python,
}

impl OpenMemory {
    pub(super) async fn detected_dialect(&self, ends: Instant) -> Answer<DialectState> {
        let dialect = match self.dialect {
            Dialect::Auto => self.facts().dialect,
            Dialect::Js1 => Some(DialectState::Js1),
            Dialect::JsHead => Some(DialectState::JsHead),
            Dialect::Python => Some(DialectState::Python),
        };
        if let Some(dialect) = dialect {
            return Ok(dialect);
        }
        let dialect = self.detect(ends).await?;
        self.facts().dialect = Some(dialect);
        Ok(dialect)
    }

    async fn detect(&self, ends: Instant) -> Answer<DialectState> {
        let health = self.get(self.at(&["health"]), ends).await?;
        if health.get("status") == Some(&Value::from("ok")) {
            return Ok(DialectState::Python);
        }
        if health.get("ok") != Some(&Value::Bool(true)) {
            let why = "is no OpenMemory: /health answers neither ok nor status; set \
                       openmemory_dialect if it is";
            return Err(BackendError::Protocol(why.into()));
        }
        // Well-formed JSON: the older server crashes on anything else.
        match self.post(&["memory", "query"], &json!({}), ends).await {
            Ok(_) => Ok(DialectState::Js1),
            Err(BackendError::Api { status: 400, .. }) => Ok(DialectState::JsHead),
            Err(error) => Err(error),
        }
    }

    /// Checks the server's health endpoint.
    pub(super) async fn healthy(&self, ends: Instant) -> Answer<()> {
        let health = self.get(self.at(&["health"]), ends).await?;
        let is_well = health.get("status") == Some(&Value::from("ok"))
            || health.get("ok") == Some(&Value::Bool(true));
        if is_well {
            Ok(())
        } else {
            let why = "/health answers neither ok: true nor status: ok";
            Err(BackendError::Protocol(why.into()))
        }
    }
}
