//! The log of operator actions.

use askama::Template;
use async_trait::async_trait;
use consign_kernel::{AuditEntry, MessageId};
use jiff::Timestamp;

use super::log::{
    AuditLog, AuditLogEntry, AuditLogFilter, AuditLogInfo, AuditLogReader, AuditQuery, Step,
};
use crate::{
    dashboard::{beside::redrive, shell::text, words::Moment},
    problem::Problem,
    state::AppState,
};

/// Entries read at once.
const STEP: u32 = 1_000;

#[derive(Debug)]
pub(super) struct OperatorLog(pub(super) AppState);

struct Reader {
    state: AppState,
    message: Option<MessageId>,
    actor: String,
    action: String,
    queue: String,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

#[derive(Template)]
#[template(path = "audit_row.html")]
struct Row<'e> {
    entry: &'e AuditEntry,
    at: Moment,
    redrive: Option<i64>,
}

impl AuditLog for OperatorLog {
    fn info(&self) -> AuditLogInfo {
        AuditLogInfo {
            name: "operators",
            tab: "Operators",
            file: "audit",
            csv: "id,at,actor,action,queue,message_id,reason\r\n",
            columns: &["Entry", "When", "Who", "What", "Queue", "Message", "Why"],
            actions: &[
                "requeue",
                "hold",
                "unhold",
                "resolve",
                "discard",
                "cancel",
                "reveal",
                "resend",
                "pause",
                "resume",
                "queue",
                "start_redrive",
                "stop_redrive",
                "resume_redrive",
                "import",
                "purge",
                "erase",
            ],
            filters: &[AuditLogFilter {
                name: "queue",
                label: "Queue",
                words: &[],
            }],
        }
    }

    fn reader(&self, query: &AuditQuery) -> Result<Box<dyn AuditLogReader>, Problem> {
        query.check_text(&["actor"])?;
        let text = |name| query.text(name).unwrap_or_default();
        Ok(Box::new(Reader {
            state: self.0.clone(),
            since: query.since()?,
            until: query.until()?,
            message: query.message()?.map(MessageId),
            actor: text("actor"),
            action: text("action"),
            queue: text("queue"),
        }))
    }
}

#[async_trait]
impl AuditLogReader for Reader {
    fn until(&self) -> Option<Timestamp> {
        self.until
    }

    async fn newest_below(&self, before: Option<i64>) -> Result<Option<(i64, Timestamp)>, Problem> {
        let newest = self.state.store.audit(None, before, 1).await?;
        Ok(newest.first().map(|entry| (entry.id, entry.at)))
    }

    async fn step(&self, before: Option<i64>) -> Result<Step, Problem> {
        let page = self.state.store.audit(self.message, before, STEP).await?;
        let is_full = page.len() == STEP as usize;
        let last = page.last().filter(|_| is_full);
        let is_past = |at: Timestamp| self.since.is_some_and(|since| at < since);
        let next = last.filter(|last| !is_past(last.at)).map(|last| last.id);
        let fitting = page.into_iter().filter(|entry| self.covers(entry));
        let entries = fitting.map(|entry| Box::new(entry) as Box<dyn AuditLogEntry>);
        Ok(Step {
            entries: entries.collect(),
            next,
        })
    }
}

impl Reader {
    fn covers(&self, entry: &AuditEntry) -> bool {
        let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
        let queue = entry.queue.as_ref().map_or("", |queue| queue.as_str());
        // By the token's name, with or without the unverified name.
        let known = entry.actor.split(", ").next().unwrap_or_default();
        (fits(&self.actor, &entry.actor) || fits(&self.actor, known))
            && fits(&self.action, &entry.action)
            && fits(&self.queue, queue)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

impl AuditLogEntry for AuditEntry {
    fn id(&self) -> i64 {
        self.id
    }

    fn row(&self, now: Timestamp) -> Result<String, Problem> {
        text(&Row {
            entry: self,
            at: Moment::new(self.at, now),
            redrive: redrive(&self.action, &self.reason),
        })
    }

    fn cells(&self) -> Vec<String> {
        let queue = self.queue.as_ref().map_or("", |queue| queue.as_str());
        let message = self.message_id.map(|id| id.to_string());
        vec![
            self.id.to_string(),
            self.at.to_string(),
            self.actor.clone(),
            self.action.clone(),
            queue.to_owned(),
            message.unwrap_or_default(),
            self.reason.clone(),
        ]
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("invariant: entries serialise")
    }
}
