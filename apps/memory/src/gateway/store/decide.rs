//! What becomes of a request before anything is written: who asks, on what evidence, and where the
//! policy lets it go.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Call, StoreAnswer, StoreRequest, audit::Draft, unfit::Unfit, write::Write};
use crate::{
    Action, AuditStatus, NewMemory, NewUser, Settings, UnknownActorPolicy,
    card::{Card, Trim},
    consume::Errand,
    evidence::{self, Evidence, check_strict, classify, resolve_validate_refs},
    payload_sha,
    policy::{Decision, EvidenceMode, Policy, PolicyInput, explain},
    tools::{NUL, has_nul},
    uri::{check_evidence_refs_json, mask_credentials_in_fields},
};

/// Longest name of a space, a kind or a user. Keys of messages hold a space and a hash.
const NAME_BYTES_MAX: usize = 200;

/// An answer before anything was tried.
pub(super) type Refused = Box<StoreAnswer>;

/// The request in one shape.
pub(super) struct Asked {
    text: String,
    trim: Trim,
    space: String,
    kind: Option<String>,
    evidence: Evidence,
    request: StoreRequest,
}

impl Asked {
    /// Who they say they are.
    fn claimed_actor(&self) -> Option<&str> {
        let claimed = self.request.actor_user_id.as_deref();
        claimed.filter(|actor| !actor.is_empty())
    }
}

/// What a decision rests on that was not asked for in its own request.
#[derive(Clone, Debug, Default)]
pub(super) struct Grounds {
    pub(super) settings: Option<Arc<Settings>>,
    /// Who is taken for a user.
    pub(super) user_id: Option<String>,
}

/// Why a request is not written.
enum Verdict {
    /// It could never be.
    Malformed(Refused),
    /// Something speaks against it.
    Rejected {
        draft: Box<Draft>,
        reason: String,
        message: String,
    },
}

impl Verdict {
    fn rejected(draft: Draft, reason: String, message: String) -> Self {
        Self::Rejected {
            draft: Box::new(draft),
            reason,
            message,
        }
    }
}

impl From<Refused> for Verdict {
    fn from(answer: Refused) -> Self {
        Self::Malformed(answer)
    }
}

/// Who asks.
struct Who {
    actor: Option<String>,
    /// Whether a token says so.
    is_bound: bool,
    /// Whether nobody knows them, and their memories are nobody's in particular.
    is_degraded: bool,
}

impl Call {
    /// What a request comes to if everything is as it was a moment ago: who asks is a user, and the
    /// settings are those that were seen last. None: it takes asking.
    pub(super) fn presume(&self, asked: &Asked) -> Option<(Write, Grounds)> {
        let settings = self.service.settings_seen()?;
        let who = self.presumed(asked)?;
        let user_id = who.actor.clone().filter(|_| !who.is_bound);
        let draft = self.draft(asked, who.actor.clone());
        let write = self.judge(asked, who, draft, &settings).ok()?;
        let grounds = Grounds {
            settings: Some(settings),
            user_id,
        };
        Some((write, grounds))
    }

    /// Decides about a request; refuses it with its one audit.
    pub(super) async fn decide(&self, asked: &Asked) -> Result<Write, Refused> {
        let mut draft = self.draft(asked, None);
        let who = self.who(asked, &mut draft).await?;
        let settings = self.service.logbook();
        let settings = settings.settings(&self.service.options().project_key);
        let settings = self.in_time("read settings", settings).await;
        let settings = settings.map_err(|error| Box::new(self.unread(&error)))?;
        let settings = self.service.saw_settings(settings);
        match self.judge(asked, who, draft, &settings) {
            Ok(write) => Ok(write),
            Err(Verdict::Malformed(answer)) => Err(answer),
            Err(Verdict::Rejected {
                draft,
                reason,
                message,
            }) => Err(self.reject(&draft, &reason, &message).await),
        }
    }

    fn draft(&self, asked: &Asked, actor: Option<String>) -> Draft {
        let mut draft = Draft {
            correlation: self.correlation.clone(),
            backend: self.service.backend().identity(),
            actor,
            requested_space: asked.space.clone(),
            final_space: None,
            text: asked.text.clone(),
            evidence: asked.evidence.clone(),
            trim: asked.trim.clone(),
            mode: None,
            refs: None,
            strict: None,
            extra: self.errand.as_ref().map(Errand::noted).unwrap_or_default(),
        };
        if let Some(old) = &asked.request.supersedes {
            draft.note("supersedes", old.as_str());
        }
        draft
    }

    /// What the settings make of a request, without asking anybody.
    fn judge(
        &self,
        asked: &Asked,
        who: Who,
        mut draft: Draft,
        settings: &Settings,
    ) -> Result<Write, Verdict> {
        let policy = Policy::read(&settings.policy_json);
        if let Err((reason, message)) = self.check_evidence(asked, &policy, &mut draft) {
            return Err(Verdict::rejected(draft, reason, message));
        }
        let decision = self.policy(asked, &who, &policy, settings.team_write_enabled)?;
        let reason = match who.is_degraded {
            true => "actor_unknown:degrade".to_owned(),
            false => format!("policy:{}", decision.reason),
        };
        let Some(space) = decision.final_space else {
            let message = format!("refused by the policy: {}", decision.reason);
            return Err(Verdict::rejected(draft, reason, message));
        };
        let action = match who.is_degraded {
            true => Action::Redirect,
            false => decision.action,
        };
        let supersedes = asked.request.supersedes.clone();
        if supersedes.is_some() && space != asked.space {
            let why = explain(&reason);
            let message = format!("a newer version stays where the old one is, and may not: {why}");
            return Err(Verdict::rejected(draft, reason, message));
        }
        let memory = NewMemory {
            target_space: space.clone(),
            payload_md: asked.text.clone(),
            backend: Some(draft.backend.clone()),
            item_id: asked.request.item_id,
            last_error: None,
            may_be_stored: false,
            correlation_id: Some(self.correlation.to_string()),
            actor_user_id: who.actor,
            kind: asked.kind.clone(),
            meta_json: asked.request.meta_json.clone(),
            evidence: asked.evidence.to_values(),
            supersedes,
        };
        self.check_message(&memory)?;
        draft.final_space = Some(space);
        Ok(Write {
            sha: memory.payload_sha(),
            memory,
            action,
            reason,
            draft,
        })
    }

    /// Brings a request into one shape.
    pub(super) fn read(&self, mut request: StoreRequest) -> Result<Asked, Refused> {
        let options = self.service.options();
        let text = request.payload_md.take();
        // An empty text beside a card is that of a client whose schema demands one.
        let text = text.filter(|text| !text.is_empty() || request.card.is_none());
        let (text, trim) = match (text, request.card.take()) {
            (Some(_), Some(_)) => {
                return Err(self.malformed("card", "payload_md and card exclude each other"));
            }
            (Some(text), None) => (text, Trim::default()),
            (None, None) => return Err(self.malformed("payload_md", "payload_md is missing")),
            (None, Some(fields)) => {
                let card = Card::read(&fields);
                let card = card.map_err(|why| self.malformed("card", &format!("card: {why}")))?;
                if request.evidence.is_empty() && request.evidence_refs.is_empty() {
                    request.evidence = card.evidence_values();
                }
                request.kind = request.kind.or(Some(card.kind.as_str().to_owned()));
                let built = card.build();
                (built.text, built.trim)
            }
        };
        if text.len() > options.payload_max_bytes {
            let most = options.payload_max_bytes;
            let why = format!("payload_md is over {most} bytes");
            let mut answer = self.malformed("payload_md", &why);
            if let Some(unfit) = &mut answer.unfit {
                unfit.payload_sha = Some(payload_sha(&text));
            }
            return Err(answer);
        }
        if let Some(what) = with_nul(&text, &request) {
            return Err(self.malformed(what, &format!("{what} {NUL}")));
        }
        mask_credentials_in_fields(&mut request.meta_json);
        let space = request.target_space.take();
        let asked = Asked {
            text,
            trim,
            space: space.unwrap_or_else(|| options.team_space()),
            kind: request.kind.take(),
            evidence: evidence::normalize(&request.evidence, &request.evidence_refs),
            request,
        };
        let names = [
            ("target_space", Some(&asked.space)),
            ("kind", asked.kind.as_ref()),
            ("actor_user_id", asked.request.actor_user_id.as_ref()),
        ];
        if asked.space.trim().is_empty() {
            return Err(self.malformed("target_space", "target_space must not be empty"));
        }
        for (what, name) in names {
            if !name.is_none_or(|name| is_plain(name)) {
                let why = format!("{what} must be one line of at most {NAME_BYTES_MAX} bytes");
                return Err(self.malformed(what, &why));
            }
        }
        Ok(asked)
    }

    /// Who asks, if whoever they say they are is a user. None: their token says somebody else.
    fn presumed(&self, asked: &Asked) -> Option<Who> {
        let claimed = asked.claimed_actor();
        let bound = self.caller.actor.as_deref();
        // Their token vouches for them.
        let bound = bound.filter(|_| self.caller.is_authenticated);
        if bound.is_some() && claimed.is_some() && claimed != bound {
            return None;
        }
        Some(Who {
            actor: bound.or(claimed).map(str::to_owned),
            is_bound: bound.is_some(),
            is_degraded: false,
        })
    }

    /// Finds out who asks, and what to do with somebody nobody knows. One audit per request: what
    /// was done is noted in it, not in one of its own (T21), and audits make no users (T22).
    async fn who(&self, asked: &Asked, draft: &mut Draft) -> Result<Who, Refused> {
        let Some(who) = self.presumed(asked) else {
            draft.actor.clone_from(&self.caller.actor);
            draft.note("claimed_actor", asked.claimed_actor());
            let message = "the token is not this actor's";
            return Err(self.reject(draft, "actor_mismatch", message).await);
        };
        let mut who = who;
        draft.actor.clone_from(&who.actor);
        let Some(actor) = who.actor.as_ref().filter(|_| !who.is_bound) else {
            return Ok(who);
        };
        let is_known = self.service.logbook().user_exists(actor);
        let is_known = self.in_time("look up a user", is_known).await;
        if is_known.map_err(|error| Box::new(self.unread(&error)))? {
            return Ok(who);
        }
        match self.service.options().unknown_actor_policy {
            UnknownActorPolicy::Reject => {
                let message = format!("{actor:?} is no user");
                return Err(self.reject(draft, "actor_unknown:reject", &message).await);
            }
            UnknownActorPolicy::Degrade => {
                draft.note("actor", "actor_unknown:degrade");
                who.is_degraded = true;
            }
            UnknownActorPolicy::AutoCreate => {
                let user = NewUser {
                    user_id: actor.clone(),
                    display_name: actor.clone(),
                };
                let made = self.service.logbook().create_user(&user);
                if let Err(error) = self.in_time("make a user", made).await {
                    let message = format!("{actor:?} could not be made a user: {error}");
                    let reason = "actor_autocreate_failed";
                    return Err(self.reject(draft, reason, &message).await);
                }
                draft.note("actor", "actor_autocreated");
            }
        }
        Ok(who)
    }

    /// Strict projects want evidence that can be followed; whatever cannot be recorded later is
    /// refused now, before anything is stored (T23).
    fn check_evidence(
        &self,
        asked: &Asked,
        policy: &Policy,
        draft: &mut Draft,
    ) -> Result<(), (String, String)> {
        let options = self.service.options();
        let mode = policy.evidence_mode;
        let is_enforced = options.strict_mode_enforce_validate_refs;
        let refs = resolve_validate_refs(mode, is_enforced, options.validate_evidence_refs, None);
        (draft.mode, draft.refs) = (Some(mode), Some(refs));
        if mode == EvidenceMode::Strict && asked.evidence.is_present() {
            let report = check_strict(&asked.evidence);
            draft.strict = Some(report.clone());
            if let Some(reason) = report.reason() {
                let message = format!("the evidence is not enough: {}", report.errors.join(", "));
                return Err((reason, message));
            }
        }
        if refs.is_on {
            let lists = Value::Object(classify(&asked.evidence).lists());
            if let Err(problems) = check_evidence_refs_json(&lists) {
                let reason = "EVIDENCE_VALIDATION_FAILED:EVIDENCE_INVALID_REF";
                let message = format!("the evidence cannot be followed: {}", problems.join(", "));
                return Err((reason.to_owned(), message));
            }
        }
        Ok(())
    }

    fn policy(
        &self,
        asked: &Asked,
        who: &Who,
        policy: &Policy,
        team_write_enabled: bool,
    ) -> Result<Decision, Refused> {
        let spaces = self.service.options().spaces();
        let spaces = spaces.map_err(|why| self.malformed("target_space", &why))?;
        // What somebody writes whom nobody knows is nobody's in particular.
        let nobodys = spaces.private_of(None);
        let input = PolicyInput {
            target_space: if who.is_degraded {
                &nobodys
            } else {
                &asked.space
            },
            actor: who.actor.as_deref(),
            is_actor_bound: who.is_bound,
            kind: asked.kind.as_deref(),
            has_evidence: asked.evidence.is_present(),
            payload_md: &asked.text,
            is_bulk: asked.request.is_bulk,
            team_write_enabled,
            policy,
            spaces: &spaces,
        };
        Ok(self.service.decide(&self.caller, &input))
    }

    /// Refuses a request, with its one audit.
    async fn reject(&self, draft: &Draft, reason: &str, message: &str) -> Refused {
        let audit = draft.decided(Action::Reject, reason);
        let audit = audit.audit(AuditStatus::Failed);
        let written = self.service.logbook().insert_audit(&audit);
        if let Err(error) = self.in_time("write an audit", written).await {
            let sha = payload_sha(&draft.text);
            return Box::new(self.unaudited(&draft.requested_space, &sha, &error));
        }
        Box::new(StoreAnswer {
            message: Some(message.to_owned()),
            error_code: Some(reject_code(reason)),
            retryable: Some(false),
            reason: Some(reason.to_owned()),
            context: Some(json!({"reason": reason})),
            ..self.answer("reject")
        })
    }

    /// Refuses what is no request to store anything; its audit names the argument.
    fn malformed(&self, parameter: &str, why: &str) -> Refused {
        let unfit = Unfit::parameter(parameter);
        Box::new(StoreAnswer {
            action: "reject",
            reason: Some(unfit.reason.clone()),
            unfit: Some(unfit),
            ..self.error("INVALID_PARAMETER", why, false)
        })
    }
}

/// The argument that holds what not every database can keep. Names are looked at by themselves.
fn with_nul(text: &str, request: &StoreRequest) -> Option<&'static str> {
    let holds_nul = |text: &str| text.contains('\0');
    let mut beside = request.meta_json.iter();
    if holds_nul(text) {
        Some("payload_md")
    } else if beside.any(|(name, value)| holds_nul(name) || has_nul(value)) {
        Some("meta_json")
    } else if request.evidence_refs.iter().any(|it| holds_nul(it)) {
        Some("evidence_refs")
    } else {
        request.evidence.iter().any(has_nul).then_some("evidence")
    }
}

/// Whether it can be a name: short, and one line.
pub(super) fn is_plain(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

fn reject_code(reason: &str) -> &'static str {
    match reason.split(':').next() {
        Some("EVIDENCE_VALIDATION_FAILED") => "EVIDENCE_VALIDATION_FAILED",
        Some("actor_unknown" | "actor_autocreate_failed") => "ACTOR_UNKNOWN",
        Some("actor_mismatch") => "ACTOR_MISMATCH",
        _ => "POLICY_REJECT",
    }
}
