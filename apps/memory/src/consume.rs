//! Making memories of what is known of repositories.
//!
//! A repository's commits or revisions become memory cards, one by one in the order of history, and
//! are stored like any other memory: audited, stored or deferred. A cursor in `logbook.kv` says how
//! far that has come. It moves in the transaction that ends the audit of the card, whether the card
//! is stored or put into the outbox, and by comparison: from the change before to this one. So a card
//! is never lost, and never made twice but for the one that was under way when a process died; that
//! one is asked for before it is stored again.
//!
//! Synchronising ([`consign_scm`]) knows nothing of this, and this knows nothing of its watermarks.

mod card;
mod cursor;
mod place;
mod redirected;

pub use self::{
    cursor::{NAMESPACE, position, rewind},
    redirected::Redirected,
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

/// Changes that are read at once; the cursor is looked at again with every page.
const PAGE: u32 = 100;
/// The code of a consumption that cannot go on.
pub const STOPPED: &str = "SCM_CONSUME_STOPPED";

/// How changes become memories.
#[derive(Clone, Debug)]
pub struct ConsumeOptions {
    /// What sort of memory their cards are.
    pub card_kind: CardKind,
    /// Who stores them; none: nobody in particular.
    pub actor_user_id: Option<String>,
    /// At most this many; none: all there are.
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

/// What became of a repository's changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Consumed {
    /// The repository.
    pub repo_id: i64,
    /// Cards that were stored where they were meant to be.
    pub stored: u64,
    /// Cards that the policy sent to a private space, and that are stored there.
    pub redirected: u64,
    /// Why, and what to do about it, if the settings alone decided so.
    pub redirected_by: Option<Redirected>,
    /// Cards that the memory server could not take and that wait in the outbox.
    pub deferred: u64,
    /// Cards that were stored or waiting already.
    pub deduplicated: u64,
    /// Where the cursor is.
    pub position: i64,
    /// Why it did not come to the end.
    pub stopped: Option<Stopped>,
}

impl Consumed {
    /// Cards in all.
    pub fn cards(&self) -> u64 {
        self.stored + self.redirected + self.deferred + self.deduplicated
    }
}

/// Why a consumption did not come to the end. The next one tries again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stopped {
    /// Always [`STOPPED`].
    pub code: &'static str,
    /// The code of what was in the way: `POLICY_REJECT`, `AUDIT_WRITE_FAILED` and so on.
    pub reason: &'static str,
    /// The change it stopped at, if it was at one.
    pub source_id: Option<String>,
    /// For people.
    pub message: String,
}

impl Stopped {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: STOPPED,
            reason,
            source_id: None,
            message: message.into(),
        }
    }
}

/// Who watches, and may end it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Whether to end after the card in hand.
    pub is_stopping: &'a (dyn Fn() -> bool + Send + Sync),
    /// Called after each card.
    pub progress: &'a (dyn Fn(&Consumed) + Send + Sync),
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Watch<'_> {
    /// Nobody.
    pub fn nobody() -> Self {
        Self {
            is_stopping: &|| false,
            progress: &|_| {},
        }
    }
}

/// What the gateway is told about a request that is a change of a repository. No tool can say so.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    cursor: Value,
}

impl Errand {
    /// What its audits say at the top: the databases move the cursor by it.
    pub(crate) fn noted(&self) -> Map<String, Value> {
        Map::from_iter([("consume".to_owned(), self.cursor.clone())])
    }
}

/// Makes memories of the changes after the cursor until there are no more, or something is in the way.
pub async fn run(
    service: &MemoryService,
    repo: &Repo,
    options: &ConsumeOptions,
    watch: Watch<'_>,
) -> Consumed {
    let mut run = Run {
        service,
        repo,
        options,
        watch,
        done: Consumed {
            repo_id: repo.repo_id,
            ..Consumed::default()
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
    // The end may have been reached by somebody else as well.
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
    done: Consumed,
}

impl Run<'_> {
    /// Writes down how it ended, for whoever asks how the repository stands.
    async fn note(&self, ended: &Result<bool, Stopped>) {
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
            info!(repo_id = self.repo.repo_id, %error, "how a consumption ended could not be noted");
        }
    }

    /// Whether it came to the end of what is known.
    async fn pages(&mut self) -> Result<bool, Stopped> {
        loop {
            // Somebody may have rewound it, or consume as well.
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
                let why = "the cursor did not move: an audit could not be ended, or somebody set it \
                           back meanwhile";
                return Err(Stopped::new("CURSOR_UNMOVED", why));
            }
        }
    }

    /// Whether it was told to end.
    async fn page(
        &mut self,
        changes: &[Change],
        mut from: i64,
        settings: &Settings,
    ) -> Result<bool, Stopped> {
        let policy = Policy::read(&settings.policy_json);
        for change in changes {
            if (self.watch.is_stopping)() {
                return Ok(true);
            }
            let request = self.request(change, &policy).await?;
            let cursor = cursor::step(self.repo, from, change.position);
            let errand = Errand { cursor };
            let caller = Caller::anonymous();
            let answer = self.service.store_for(request, &caller, Some(errand)).await;
            let counted = self.count(&answer, change);
            if self.done.redirected > 0 && self.done.redirected_by.is_none() {
                self.done.redirected_by = Redirected::by(settings, &policy, self.options);
            }
            counted?;
            from = change.position;
            self.done.position = from;
            (self.watch.progress)(&self.done);
        }
        Ok(false)
    }

    async fn request(&self, change: &Change, policy: &Policy) -> Result<StoreRequest, Stopped> {
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

    fn count(&mut self, answer: &StoreAnswer, change: &Change) -> Result<(), Stopped> {
        let is_hit = answer.error_code == Some("OUTBOX_DEDUP_HIT")
            || answer
                .message
                .as_deref()
                .is_some_and(|told| told.starts_with(DEDUP_HIT));
        let (outcome, count) = match answer.action {
            _ if is_hit => ("deduplicated", &mut self.done.deduplicated),
            "allow" if answer.ok => ("stored", &mut self.done.stored),
            "redirect" if answer.ok => ("redirected", &mut self.done.redirected),
            "deferred" => ("deferred", &mut self.done.deferred),
            _ => {
                let message = answer.message.clone().unwrap_or_default();
                return Err(Stopped {
                    source_id: Some(change.source_id.clone()),
                    ..Stopped::new(answer.error_code.unwrap_or("UNKNOWN"), message)
                });
            }
        };
        *count += 1;
        metrics::consumed(self.repo.repo_id, outcome);
        // The next one would be stored as well, and the cursor would know of neither.
        if answer.is_audit_open {
            let message = answer.message.clone().unwrap_or_default();
            return Err(Stopped {
                source_id: Some(change.source_id.clone()),
                ..Stopped::new("AUDIT_NOT_ENDED", message)
            });
        }
        Ok(())
    }

    async fn settings(&self) -> Result<Settings, Stopped> {
        let project = &self.service.options().project_key;
        let settings = self.service.logbook().settings(project).await;
        settings.map_err(|error| unread(&error))
    }

    fn scm(&self) -> Result<&dyn ScmLedger, Stopped> {
        let missing = || Stopped::new("SCM_UNAVAILABLE", "this gateway knows no repositories");
        self.service.scm().ok_or_else(missing)
    }
}

fn clamped(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn unread(error: &Error) -> Stopped {
    Stopped::new("LOGBOOK_UNAVAILABLE", error.to_string())
}

fn unknown(error: &LedgerError) -> Stopped {
    Stopped::new(error.code(), error.to_string())
}
