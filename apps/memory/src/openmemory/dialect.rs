//! Which dialect a server speaks.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Answer, OpenMemory};
use crate::{BackendError, Dialect};

/// A dialect that was told or found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    /// The JavaScript server up to 1.3: whose user is whatever the request says.
    Js1,
    /// The JavaScript server since: the key is the user, and any other is refused.
    JsHead,
    /// The Python server: no reading back of single memories.
    Python,
}

impl OpenMemory {
    pub(super) async fn speaks(&self, ends: Instant) -> Answer<Speaks> {
        let told = match self.dialect {
            Dialect::Auto => self.known().speaks,
            Dialect::Js1 => Some(Speaks::Js1),
            Dialect::JsHead => Some(Speaks::JsHead),
            Dialect::Python => Some(Speaks::Python),
        };
        if let Some(speaks) = told {
            return Ok(speaks);
        }
        let speaks = self.listen(ends).await?;
        self.known().speaks = Some(speaks);
        Ok(speaks)
    }

    async fn listen(&self, ends: Instant) -> Answer<Speaks> {
        let health = self.get(self.at(&["health"]), ends).await?;
        if health.get("status") == Some(&Value::from("ok")) {
            return Ok(Speaks::Python);
        }
        if health.get("ok") != Some(&Value::Bool(true)) {
            let why = "is no OpenMemory: /health says neither ok nor status; set \
                       openmemory_dialect if it is";
            return Err(BackendError::Protocol(why.into()));
        }
        // Well-formed, because the older server does not survive a body that is not.
        match self.post(&["memory", "query"], &json!({}), ends).await {
            Ok(_) => Ok(Speaks::Js1),
            Err(BackendError::Api { status: 400, .. }) => Ok(Speaks::JsHead),
            Err(error) => Err(error),
        }
    }

    /// Whether the server is there and well, in its own words.
    pub(super) async fn healthy(&self, ends: Instant) -> Answer<()> {
        let health = self.get(self.at(&["health"]), ends).await?;
        let is_well = health.get("status") == Some(&Value::from("ok"))
            || health.get("ok") == Some(&Value::Bool(true));
        match is_well {
            true => Ok(()),
            false => Err(BackendError::Protocol(
                "/health does not say that it is well".into(),
            )),
        }
    }
}
