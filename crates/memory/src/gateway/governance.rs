//! Settings.

use serde_json::{Map, Value, json};

use super::{MemoryService, refused};
use crate::{
    Caller,
    tools::{Arguments, Refusal},
};

/// A change of settings, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GovernanceUpdate {
    team_write_enabled: Option<bool>,
    policy_json: Option<Map<String, Value>>,
    admin_key: Option<String>,
    actor_user_id: Option<String>,
}

impl GovernanceUpdate {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        Ok(Self {
            team_write_enabled: arguments.flag("team_write_enabled")?,
            policy_json: arguments.object("policy_json")?,
            admin_key: arguments.text("admin_key")?,
            actor_user_id: arguments.text("actor_user_id")?,
        })
    }
}

impl MemoryService {
    /// The project's settings.
    pub(crate) async fn governance_get(&self) -> Result<Value, Refusal> {
        let settings = self.logbook().settings(&self.options().project_key).await;
        Ok(json!({"ok": true, "settings": settings.map_err(refused)?}))
    }

    /// Changes the project's settings.
    pub(crate) async fn governance_update(
        &self,
        request: GovernanceUpdate,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let _ = (request, caller);
        Err(Refusal::new("NOT_IMPLEMENTED", "not yet"))
    }
}
