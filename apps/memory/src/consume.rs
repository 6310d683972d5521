//! Makes memories of the history of repositories.
//!
//! A repository's commits or revisions become memory cards in the order of history, and are stored
//! like any other memory: audited, stored or deferred. A cursor in `logbook.kv` has the position.
//! It moves in the transaction that ends the audit of the card, whether the card is stored or
//! deferred, by compare and set: from the change before to this one. So no card is lost, and only
//! the card in progress when a process died can be stored twice; that one is looked up first.
//!
//! Independent of the synchronisation ([`consign_scm`]) and its watermarks.

mod card;
mod cursor;
mod place;
mod redirected;

pub use self::{
    cursor::{NAMESPACE, position, rewind},
    redirected::RedirectReasons,
};

use std::fmt;

use consign_kernel::Error;
use consign_scm::{Change, End, LedgerError, Repo, ScmLedger, Step};
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::{info, warn};

use crate::{
    Caller, MemoryService, Settings, StoreAnswer, StoreRequest, card::CardKind, gateway::DEDUP_HIT,
    metrics, policy::Policy,
};

/// Changes per page; the cursor is read again with every page.
const PAGE: u32 = 100;
/// The code of a consumption that stopped.
pub const STOPPED: &str = "SCM_CONSUME_STOPPED";

/// Options of a consumption.
#[derive(Clone, Debug)]
pub struct ConsumeOptions {
    /// Kind of the cards.
    pub card_kind: CardKind,
    /// Actor of the cards; `None`: anonymous.
    pub actor_user_id: Option<String>,
    /// Maximum cards; `None`: all.
    pub cards_max: Option<u64>,
}

impl Default for ConsumeOptions {
    fn default() -> Self {
        Self {
            card_kind: CardKind::Fact,
            actor_user_id: None,
            cards_max: None,
        }
    }
}

/// Result of a consumption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConsumeReport {
    /// The repository.
    pub repo_id: i64,
    /// Cards stored in their target space.
    pub stored: u64,
    /// Cards that the policy redirected to a private space.
    pub redirected: u64,
    /// Why, and how to change it, if the settings alone caused the redirect.
    pub redirected_by: Option<RedirectReasons>,
    /// Cards that the memory server could not take and that are in the outbox.
    pub deferred: u64,
    /// Cards that were stored or deferred already.
    pub deduplicated: u64,
    /// The cursor.
    pub position: i64,
    /// Why it stopped early.
    pub stopped: Option<ConsumeStop>,
}

impl ConsumeReport {
    /// Total cards.
    pub fn cards(&self) -> u64 {
        self.stored + self.redirected + self.deferred + self.deduplicated
    }
}

/// Why a consumption stopped early. The next one retries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumeStop {
    /// Always [`STOPPED`].
    pub code: &'static str,
    /// The code of the cause: `POLICY_REJECT`, `AUDIT_WRITE_FAILED` and so on.
    pub reason: &'static str,
    /// The change at which it stopped, if any.
    pub source_id: Option<String>,
    /// For people.
    pub message: String,
}

impl ConsumeStop {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: STOPPED,
            reason,
            source_id: None,
            message: message.into(),
        }
    }
}

/// Observer of a consumption, which can end it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Whether to stop after the current card.
    pub is_stopping: &'a (dyn Fn() -> bool + Send + Sync),
    /// Called after each card.
    pub progress: &'a (dyn Fn(&ConsumeReport) + Send + Sync),
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch<'_> {
    /// No observer.
    pub fn none() -> Self {
        Self {
            is_stopping: &|| false,
            progress: &|_| {},
        }
    }
}

/// Origin of a request that is a change of a repository. Tools cannot set it.
#[derive(Clone, Debug)]
pub(crate) struct ChangeOrigin {
    cursor: Value,
}

impl ChangeOrigin {
    /// The top-level fields of its audits, by which the databases move the cursor.
    pub(crate) fn noted(&self) -> Map<String, Value> {
        Map::from_iter([("consume".to_owned(), self.cursor.clone())])
    }
}

/// Makes memories of the changes after the cursor, until the end or a failure.
pub async fn run(
    service: &MemoryService,
    repo: &Repo,
    options: &ConsumeOptions,
    watch: Watch<'_>,
) -> ConsumeReport {
    let mut run = Run {
        service,
        repo,
        options,
        watch,
        done: ConsumeReport {
            repo_id: repo.repo_id,
            ..ConsumeReport::default()
        },
    };
    let ended = run.pages().await;
    run.note(&ended).await;
    if let Err(stopped) = ended {
        warn!(
            repo_id = repo.repo_id,
            reason = stopped.reason,
            source_id = stopped.source_id,
            "{STOPPED}: {}",
            stopped.message
        );
        metrics::consumed(repo.repo_id, "stopped");
        run.done.stopped = Some(stopped);
    }
    // Another process may have reached the end as well.
    if let Ok(at) = cursor::position(service, repo).await {
        run.done.position = at;
    }
    let done = run.done;
    if let Some(by) = &done.redirected_by {
        let (repo_id, redirected) = (repo.repo_id, done.redirected);
        info!(
            repo_id,
            redirected,
            reason = by.reason,
            "cards were kept in a private space"
        );
    }
    if done.cards() > 0 {
        info!(
            repo_id = repo.repo_id,
            stored = done.stored,
            redirected = done.redirected,
            deferred = done.deferred,
            deduplicated = done.deduplicated,
            position = done.position,
            "changes became memories"
        );
    }
    done
}

struct Run<'a> {
    service: &'a MemoryService,
    repo: &'a Repo,
    options: &'a ConsumeOptions,
    watch: Watch<'a>,
    done: ConsumeReport,
}

impl Run<'_> {
    /// Records the result for the repository's status.
    async fn note(&self, ended: &Result<bool, ConsumeStop>) {
        let end = match ended {
            Ok(true) => End::Complete,
            Ok(false) if self.done.cards() == 0 => return,
            Ok(false) => End::Partial,
            Err(stopped) => {
                let at = stopped.source_id.as_deref().map(|id| format!("at {id}: "));
                let message = at.unwrap_or_default() + &stopped.message;
                End::stopped(stopped.reason, &message)
            }
        };
        let Some(scm) = self.service.scm() else {
            return;
        };
        let noted = scm.ended(self.repo.repo_id, Step::Consume, &end).await;
        if let Err(error) = noted {
            info!(repo_id = self.repo.repo_id, %error, "recording the end of a consumption failed");
        }
    }

    /// Whether it reached the end of the stored history.
    async fn pages(&mut self) -> Result<bool, ConsumeStop> {
        loop {
            // The cursor may have been rewound, or moved by another consumption.
            let at = cursor::position(self.service, self.repo).await;
            let at = at.map_err(|error| unread(&error))?;
            self.done.position = at;
            let limit = match self.options.cards_max {
                Some(most) => PAGE.min(clamped(most.saturating_sub(self.done.cards()))),
                None => PAGE,
            };
            if limit == 0 || (self.watch.is_stopping)() {
                return Ok(false);
            }
            let changes = self.scm()?.changes(self.repo.repo_id, at, limit).await;
            let changes = changes.map_err(|error| unknown(&error))?;
            if changes.is_empty() {
                return Ok(true);
            }
            let settings = self.settings().await?;
            if self.page(&changes, at, &settings).await? {
                return Ok(false);
            }
            let now = cursor::position(self.service, self.repo).await;
            if now.map_err(|error| unread(&error))? == at {
                let why = "the cursor did not move: an audit could not be ended, or the cursor was set \
                           back meanwhile";
                return Err(ConsumeStop::new("CURSOR_UNMOVED", why));
            }
        }
    }

    /// Whether it was stopped by the observer.
    async fn page(
        &mut self,
        changes: &[Change],
        mut from: i64,
        settings: &Settings,
    ) -> Result<bool, ConsumeStop> {
        let policy = Policy::read(&settings.policy_json);
        for change in changes {
            if (self.watch.is_stopping)() {
                return Ok(true);
            }
            let request = self.request(change, &policy).await?;
            let cursor = cursor::step(self.repo, from, change.position);
            let origin = ChangeOrigin { cursor };
            let caller = Caller::anonymous();
            let answer = self.service.store_for(request, &caller, Some(origin)).await;
            let counted = self.count(&answer, change);
            if self.done.redirected > 0 && self.done.redirected_by.is_none() {
                self.done.redirected_by = RedirectReasons::by(settings, &policy, self.options);
            }
            counted?;
            from = change.position;
            self.done.position = from;
            (self.watch.progress)(&self.done);
        }
        Ok(false)
    }

    async fn request(&self, change: &Change, policy: &Policy) -> Result<StoreRequest, ConsumeStop> {
        let patch = self.scm()?.patch(change.repo_id, &change.rev_or_sha).await;
        let patch = patch.map_err(|error| unknown(&error))?;
        let cards = card::Cards {
            repo: self.repo,
            kind: self.options.card_kind,
            policy,
        };
        Ok(StoreRequest {
            actor_user_id: self.options.actor_user_id.clone(),
            ..cards.request(change, patch.as_ref())
        })
    }

    fn count(&mut self, answer: &StoreAnswer, change: &Change) -> Result<(), ConsumeStop> {
        let is_hit = answer.error_code == Some("OUTBOX_DEDUP_HIT")
            || answer
                .message
                .as_deref()
                .is_some_and(|outcome_reason| outcome_reason.starts_with(DEDUP_HIT));
        let (outcome, count) = match answer.action {
            _ if is_hit => ("deduplicated", &mut self.done.deduplicated),
            "allow" if answer.ok => ("stored", &mut self.done.stored),
            "redirect" if answer.ok => ("redirected", &mut self.done.redirected),
            "deferred" => ("deferred", &mut self.done.deferred),
            _ => {
                let message = answer.message.clone().unwrap_or_default();
                return Err(ConsumeStop {
                    source_id: Some(change.source_id.clone()),
                    ..ConsumeStop::new(answer.error_code.unwrap_or("UNKNOWN"), message)
                });
            }
        };
        *count += 1;
        metrics::consumed(self.repo.repo_id, outcome);
        // Continuing would store further cards without moving the cursor.
        if answer.is_audit_open {
            let message = answer.message.clone().unwrap_or_default();
            return Err(ConsumeStop {
                source_id: Some(change.source_id.clone()),
                ..ConsumeStop::new("AUDIT_NOT_ENDED", message)
            });
        }
        Ok(())
    }

    async fn settings(&self) -> Result<Settings, ConsumeStop> {
        let project = &self.service.options().project_key;
        let settings = self.service.logbook().settings(project).await;
        settings.map_err(|error| unread(&error))
    }

    fn scm(&self) -> Result<&dyn ScmLedger, ConsumeStop> {
        let missing = || ConsumeStop::new("SCM_UNAVAILABLE", "this gateway has no repositories");
        self.service.scm().ok_or_else(missing)
    }
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn unread(error: &Error) -> ConsumeStop {
    ConsumeStop::new("LOGBOOK_UNAVAILABLE", error.to_string())
}

fn unknown(error: &LedgerError) -> ConsumeStop {
    ConsumeStop::new(error.code(), error.to_string())
}
