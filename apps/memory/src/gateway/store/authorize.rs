//! Step 2: the requester, and the settings that apply to it.

use std::sync::Arc;

use super::{StoreCall, StoreError, parse::StoreInput, reject::Rejection};
use crate::{NewUser, Settings, UnknownActorPolicy};

/// The acting user of a request.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    pub(super) actor: Option<String>,
    /// The token names the actor.
    pub(super) is_bound: bool,
    /// A token was presented, whether or not it names an actor.
    pub(super) is_authenticated: bool,
    pub(super) actor_status: ActorStatus,
}

/// Whether the actor is a user of the logbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActorStatus {
    /// A user, bound by a token, or absent.
    Known,
    /// Made a user by this request.
    Created,
    /// No user; its memories go to the space of unknown actors.
    Unknown,
}

/// What a decision rests on beside the request.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) requester: Requester,
    pub(super) settings: Arc<Settings>,
    pub(super) source: FactSource,
}

/// Where [`Facts`] come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FactSource {
    /// Settings as last read, and the actor assumed to be a user. `Logbook::open_write` compares both
    /// with the database in the transaction that writes the audit, which saves a round trip.
    Cache,
    /// Read for this request.
    Database,
}

impl Facts {
    /// The assumptions that `Logbook::open_write` has to check.
    pub(super) fn assumptions(&self) -> (Option<Arc<Settings>>, Option<String>) {
        match self.source {
            FactSource::Cache => {
                let user = self.requester.actor.clone();
                let user = user.filter(|_| !self.requester.is_bound);
                (Some(Arc::clone(&self.settings)), user)
            }
            FactSource::Database => (None, None),
        }
    }
}

impl StoreCall {
    /// Identifies the requester and gets the settings, from the cache if it is filled and asked for.
    pub(super) async fn authorize(
        &self,
        input: &StoreInput,
        source: FactSource,
    ) -> Result<Facts, StoreError> {
        let mut requester = self.requester(input)?;
        if source == FactSource::Cache
            && let Some(settings) = self.service.cached_settings()
        {
            return Ok(Facts {
                requester,
                settings,
                source,
            });
        }
        if let Some(actor) = requester.actor.as_deref().filter(|_| !requester.is_bound) {
            requester.actor_status = self.actor_status(actor, input).await?;
        }
        let project = &self.service.options().project_key;
        let settings = self.service.logbook().settings(project);
        let settings = self.within_budget("read settings", settings).await?;
        Ok(Facts {
            requester,
            settings: self.service.cache_settings(settings),
            source: FactSource::Database,
        })
    }

    /// The requester by token and claim; a claim that contradicts the token is rejected.
    fn requester(&self, input: &StoreInput) -> Result<Requester, StoreError> {
        let claimed = input.actor.as_deref();
        let bound = self.caller.actor.as_deref();
        let bound = bound.filter(|_| self.caller.is_authenticated);
        if bound.is_some() && claimed.is_some() && claimed != bound {
            let mut audit = self.audit_facts(input);
            audit.actor_user_id.clone_from(&self.caller.actor);
            audit.note("claimed_actor", claimed);
            let message = "the token does not belong to this actor";
            return Err(Rejection::refused(audit, "actor_mismatch", message));
        }
        Ok(Requester {
            actor: bound.or(claimed).map(str::to_owned),
            is_bound: bound.is_some(),
            is_authenticated: self.caller.is_authenticated,
            actor_status: ActorStatus::Known,
        })
    }

    /// Applies `unknown_actor_policy` to a claimed actor. The result is stated in the one audit of the
    /// request; writing an audit creates no user.
    async fn actor_status(
        &self,
        actor: &str,
        input: &StoreInput,
    ) -> Result<ActorStatus, StoreError> {
        let is_user = self.service.logbook().user_exists(actor);
        if self.within_budget("look up a user", is_user).await? {
            return Ok(ActorStatus::Known);
        }
        let reject = |reason: &str, message: String| {
            let mut audit = self.audit_facts(input);
            audit.actor_user_id = Some(actor.to_owned());
            Err(Rejection::refused(audit, reason, message))
        };
        match self.service.options().unknown_actor_policy {
            UnknownActorPolicy::Reject => {
                reject("actor_unknown:reject", format!("{actor:?} is no user"))
            }
            UnknownActorPolicy::Degrade => Ok(ActorStatus::Unknown),
            UnknownActorPolicy::AutoCreate => {
                let user = NewUser {
                    user_id: actor.to_owned(),
                    display_name: actor.to_owned(),
                };
                let created = self.service.logbook().create_user(&user);
                match self.within_budget("create a user", created).await {
                    Ok(()) => Ok(ActorStatus::Created),
                    Err(error) => reject(
                        "actor_autocreate_failed",
                        format!("{actor:?} could not be made a user: {error}"),
                    ),
                }
            }
        }
    }
}
