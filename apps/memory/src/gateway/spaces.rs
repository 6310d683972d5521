//! Where a caller's memories go and are looked for.

use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::warn;

use super::{MemoryService, refused};
use crate::{
    Caller,
    space::{SpaceKind, Spaces},
    tools::{Arguments, Refusal, wrong},
};

/// Whose spaces, as it was asked for.
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
    /// The spaces that a caller named, if they may look there; without any, those that the caller's
    /// own memories go to unless a request says otherwise.
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

    /// The team's space, the caller's own, and for somebody who is no user that of nobody in
    /// particular, where the gateway keeps what such a caller writes.
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

    /// Whether this is a user. A logbook that does not answer knows none: a search goes on without it.
    async fn is_user(&self, actor: &str) -> bool {
        let budget = self.options().gateway_budget() / 4;
        match timeout(budget, self.logbook().user_exists(actor)).await {
            Ok(Ok(is_user)) => is_user,
            Ok(Err(error)) => {
                warn!(%error, "the logbook could not be asked for a user");
                false
            }
            Err(_) => false,
        }
    }

    pub(super) fn spaces(&self) -> Result<Spaces, Refusal> {
        let spaces = self.options().spaces();
        spaces.map_err(|why| wrong("private_space_prefix", &why))
    }

    /// Which spaces there are for a caller: shared ones that have memories, and those they write to.
    /// Private spaces of others are not listed, to nobody.
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
