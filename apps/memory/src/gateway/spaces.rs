//! The spaces of a caller, and `memory_spaces`.

use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::warn;

use super::{MemoryService, refused};
use crate::{
    Caller,
    space::{SpaceKind, Spaces},
    tools::{Arguments, Refusal, wrong},
};

/// The actor whose spaces are listed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpacesRequest {
    actor_user_id: Option<String>,
}

impl SpacesRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let actor_user_id = arguments.text("actor_user_id")?;
        Ok(Self { actor_user_id })
    }
}

impl MemoryService {
    /// The requested spaces, if the caller may use them; without any, those that the caller's memories go
    /// to by default.
    pub(super) async fn readable_spaces(
        &self,
        named: Vec<String>,
        actor: Option<&str>,
        caller: &Caller,
    ) -> Result<Vec<String>, Refusal> {
        self.check_actor(caller, actor)?;
        if named.is_empty() {
            return self.default_spaces(actor, caller).await;
        }
        for space in &named {
            self.check_space(caller, space)?;
        }
        Ok(named)
    }

    /// The team's space, the actor's private one, and for an unknown actor also that of unknown actors,
    /// where its memories are stored.
    async fn default_spaces(
        &self,
        actor: Option<&str>,
        caller: &Caller,
    ) -> Result<Vec<String>, Refusal> {
        let spaces = self.spaces()?;
        let bound = caller.actor.as_deref().filter(|_| caller.is_authenticated);
        let actor = bound.or(actor).filter(|actor| !actor.is_empty());
        let mut default = vec![self.options().team_space(), spaces.private_of(actor)];
        if let Some(actor) = actor.filter(|_| bound.is_none())
            && !self.is_user(actor).await
        {
            default.push(spaces.private_of(None));
        }
        default.dedup();
        default.retain(|space| self.may_use(caller, space));
        Ok(default)
    }

    /// Whether this is a user; false if the logbook does not answer, so that a search can continue.
    async fn is_user(&self, actor: &str) -> bool {
        let budget = self.options().gateway_budget() / 4;
        match timeout(budget, self.logbook().user_exists(actor)).await {
            Ok(Ok(is_user)) => is_user,
            Ok(Err(error)) => {
                warn!(%error, "the user could not be looked up");
                false
            }
            Err(_) => false,
        }
    }

    pub(super) fn spaces(&self) -> Result<Spaces, Refusal> {
        let spaces = self.options().spaces();
        spaces.map_err(|why| wrong("private_space_prefix", &why))
    }

    /// The spaces of a caller: shared ones that have memories, and those it writes to. Private spaces of
    /// others are never listed.
    pub(crate) async fn memory_spaces(
        &self,
        request: SpacesRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let actor = request.actor_user_id.as_deref();
        let searched = self.readable_spaces(Vec::new(), actor, caller).await?;
        let known = self.logbook().memory_spaces().await.map_err(refused)?;
        let project = &self.options().project_key;
        let settings = self.logbook().settings(project).await.map_err(refused)?;
        let spaces = self.spaces()?;
        let is_shared =
            |space: &String| matches!(spaces.kind(space), Some(SpaceKind::Team | SpaceKind::Org));
        let mut listed = searched.clone();
        let others = known.into_iter().filter(is_shared);
        listed.extend(others.filter(|space| !searched.contains(space)));
        let shown = listed.iter().map(|space| {
            json!({
                "space": space,
                "kind": spaces.kind(space).map(SpaceKind::as_str),
                "searched_by_default": searched.contains(space),
            })
        });
        Ok(json!({
            "ok": true,
            "total": listed.len(),
            "spaces": shown.collect::<Vec<Value>>(),
            "default_space": self.options().team_space(),
            "private_space": searched.last(),
            "team_write_enabled": settings.team_write_enabled,
        }))
    }
}
