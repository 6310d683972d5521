//! Write audits on the audit page.

use std::sync::Arc;

use askama::Template;
use async_trait::async_trait;
use consign_server::apps::{
    AuditLog, AuditLogEntry, AuditLogFilter, AuditLogInfo, AuditLogReader, AuditQuery, Moment,
    Problem, Step, codes, encoded, text,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{Audit, AuditFilter, Logbook, MemoryService, http::MemoryHttp};

/// Limits of one step over the write audits.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Audits per answer.
    writes: u32,
    /// Audit ids scanned at once: actor and space have no index.
    span: i64,
    /// Precision of the search for a time.
    near: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            writes: 500,
            span: 10_000,
            near: 1_000,
        }
    }
}

#[derive(Debug)]
pub(crate) struct WriteAudits(pub(crate) MemoryHttp);

struct Reader {
    service: Arc<MemoryService>,
    writes: AuditFilter,
    limits: Limits,
}

#[derive(Template)]
#[template(path = "write_row.html")]
struct Row {
    id: i64,
    at: Moment,
    actor: String,
    action: &'static str,
    status: &'static str,
    space: String,
    message_id: Option<i64>,
    correlation: String,
    /// Link to all audits of the same request or batch.
    same: String,
    reason: String,
}

impl AuditLog for WriteAudits {
    fn info(&self) -> AuditLogInfo {
        AuditLogInfo {
            name: "writes",
            tab: "Memory writes",
            file: "write-audits",
            csv: "audit_id,created_at,updated_at,actor_user_id,action,status,target_space,\
                  outbox_id,correlation_id,payload_sha,reason\r\n",
            columns: &[
                "Audit",
                "When",
                "Who",
                "What",
                "Status",
                "Space",
                "Message",
                "Correlation",
                "Why",
            ],
            actions: &["allow", "redirect", "reject"],
            filters: &[
                AuditLogFilter {
                    name: "status",
                    label: "Status",
                    words: &["pending", "success", "failed", "redirected"],
                },
                AuditLogFilter {
                    name: "space",
                    label: "Space",
                    words: &[],
                },
                AuditLogFilter {
                    name: "correlation",
                    label: "Correlation",
                    words: &[],
                },
            ],
        }
    }

    fn absence(&self) -> Option<&'static str> {
        let is_here = self.0.gateway.is_some();
        (!is_here).then_some("The app memory is off on this server.")
    }

    fn reader(&self, query: &AuditQuery) -> Result<Box<dyn AuditLogReader>, Problem> {
        Ok(Box::new(self.read(query)?))
    }
}

impl WriteAudits {
    fn read(&self, query: &AuditQuery) -> Result<Reader, Problem> {
        query.check_text(&["actor", "space", "correlation"])?;
        let writes = AuditFilter {
            since: query.since()?,
            until: query.until()?,
            outbox_id: query.message()?,
            actor_user_id: query.text("actor"),
            action: word("action", query)?,
            status: word("status", query)?,
            target_space: query.text("space"),
            correlation_id: query.text("correlation"),
            ..AuditFilter::default()
        };
        let none = || Problem::new(codes::NOT_FOUND, "the app memory is off on this server");
        let gateway = self.0.gateway.as_ref().ok_or_else(none)?;
        Ok(Reader {
            service: Arc::clone(&gateway.service),
            writes,
            limits: Limits::default(),
        })
    }
}

/// Parses a value of write audits.
fn word<T: serde::de::DeserializeOwned>(
    field: &str,
    query: &AuditQuery,
) -> Result<Option<T>, Problem> {
    let Some(text) = query.text(field) else {
        return Ok(None);
    };
    let word = serde_json::from_value(text.into()).map(Some);
    word.map_err(|_| Problem::invalid(field, "is not a valid value of write audits"))
}

#[async_trait]
impl AuditLogReader for Reader {
    fn near(&self) -> i64 {
        self.limits.near
    }

    fn until(&self) -> Option<Timestamp> {
        self.writes.until
    }

    async fn newest_below(&self, before: Option<i64>) -> Result<Option<(i64, Timestamp)>, Problem> {
        let filter = AuditFilter {
            before,
            ..AuditFilter::default()
        };
        let newest = self.logbook().audits(&filter, 1).await?;
        Ok(newest.first().map(|it| (it.audit_id, it.created_at)))
    }

    async fn step(&self, before: Option<i64>) -> Result<Step, Problem> {
        let mut filter = self.writes.clone();
        // These have an index.
        let is_indexed = filter.outbox_id.is_some() || filter.correlation_id.is_some();
        let mut floor = None;
        filter.before = before;
        if !is_indexed {
            let top = match before {
                Some(before) => before,
                None => match self.newest_below(None).await? {
                    Some((newest, _)) => newest.saturating_add(1),
                    None => return Ok(nothing()),
                },
            };
            filter.before = Some(top);
            floor = Some(top.saturating_sub(self.limits.span)).filter(|floor| *floor > 1);
            filter.after = floor.map(|floor| floor - 1);
        }
        let found = self.logbook().audits(&filter, self.limits.writes).await?;
        let next = match found.last() {
            Some(last) if found.len() == self.limits.writes as usize => Some(last.audit_id),
            _ => self.unless_past(floor).await?,
        };
        let entries = found
            .into_iter()
            .map(|it| Box::new(it) as Box<dyn AuditLogEntry>);
        Ok(Step {
            entries: entries.collect(),
            next,
        })
    }
}

impl Reader {
    /// The same, unless all remaining audits are too old.
    async fn unless_past(&self, floor: Option<i64>) -> Result<Option<i64>, Problem> {
        let (Some(floor), Some(since)) = (floor, self.writes.since) else {
            return Ok(floor);
        };
        let below = self.newest_below(Some(floor)).await?;
        Ok(below.filter(|(_, at)| *at >= since).map(|_| floor))
    }

    fn logbook(&self) -> &dyn Logbook {
        self.service.logbook()
    }
}

fn nothing() -> Step {
    Step {
        entries: Vec::new(),
        next: None,
    }
}

impl AuditLogEntry for Audit {
    fn id(&self) -> i64 {
        self.audit_id
    }

    fn row(&self, now: Timestamp) -> Result<String, Problem> {
        let correlation = self.correlation_id.clone().unwrap_or_default();
        text(&Row {
            id: self.audit_id,
            at: Moment::new(self.created_at, now),
            actor: self.actor_user_id.clone().unwrap_or_default(),
            action: self.action.as_str(),
            status: self.status.as_str(),
            space: self.target_space.clone(),
            message_id: outbox_id(self),
            same: format!("/ui/audit?of=writes&correlation={}", encoded(&correlation)),
            correlation,
            reason: self.reason.clone().unwrap_or_default(),
        })
    }

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        let updated = self.updated_at.map(|at| at.to_string());
        let outbox_id = outbox_id(self).map(|id| id.to_string());
        vec![
            self.audit_id.to_string(),
            self.created_at.to_string(),
            or_empty(&updated),
            or_empty(&self.actor_user_id),
            self.action.as_str().to_owned(),
            self.status.as_str().to_owned(),
            self.target_space.clone(),
            or_empty(&outbox_id),
            or_empty(&self.correlation_id),
            or_empty(&self.payload_sha),
            or_empty(&self.reason),
        ]
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("invariant: entries serialise")
    }
}

/// The outbox row of an audit.
fn outbox_id(audit: &Audit) -> Option<i64> {
    match &audit.evidence_refs_json["outbox_id"] {
        Value::Number(id) => id.as_i64(),
        Value::String(id) => id.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
