//! The beginning of a write: everything that is asked before it and its audit, in one transaction.

use consign_kernel::MessageId;
use consign_memory::{AuditStatus, Found, Kept, NewMemory, Opened, Opening, Settings, message_key};
use serde_json::{Map, Value, json};
use sqlx::{Row, sqlite::SqliteRow};

use super::audit::{check_shape, lay_over, pending_already};
use crate::{
    error::{Failure, Result},
    job::{Work, arguments},
    rows, sql,
};

impl Work<'_> {
    pub(super) async fn open_write(&mut self, opening: &Opening) -> Result<Opened> {
        let audit = &opening.audit;
        let space = audit.target_space.as_str();
        let sha = audit.payload_sha.as_deref().unwrap_or_default();
        let project = opening.settings.as_ref().map(|it| it.project_key.as_str());
        let statements = [sql!("begin", "write_open"), sql!("write_open")];
        let arguments = arguments!(
            message_key(space, sha),
            space,
            sha,
            project,
            opening.user_id.as_deref(),
            audit.correlation_id.as_deref()
        )?;
        let answers = self.open_with(statements, arguments).await?;
        let Some(row) = answers.first().and_then(|rows| rows.first()) else {
            return Err(Failure::corrupt("a question without tables gave no answer"));
        };
        if is_stale(opening, row)? {
            return Ok(Opened::Stale);
        }
        if opening.is_deduplicated
            && let Some(found) = found(row)?
        {
            return Ok(Opened::Known(found));
        }
        if let Some(memory) = &opening.kept {
            return Ok(Opened::Kept(self.keep_audited(opening, memory).await?));
        }
        check_shape(audit)?;
        if row.try_get("is_open")? {
            return Err(pending_already().into());
        }
        self.add_audit(audit).await?;
        Ok(Opened::Pending)
    }

    /// Keeps a memory with its audit, which has ended.
    async fn keep_audited(&mut self, opening: &Opening, memory: &NewMemory) -> Result<Kept> {
        let mut audit = opening.audit.clone();
        audit.status = AuditStatus::Success;
        check_shape(&audit)?;
        let kept = self.keep(memory).await?;
        let name = kept.memory_id.as_str();
        let patch = json!({"memory_id": name, "gateway_event": {"memory_id": name}});
        if let Value::Object(document) = &mut audit.evidence_refs_json {
            lay_over(document, &patch);
        }
        self.add_audit(&audit).await?;
        Ok(kept)
    }
}

fn is_stale(opening: &Opening, row: &SqliteRow) -> Result<bool> {
    if opening.user_id.is_some() && !row.try_get::<bool, _>("is_user")? {
        return Ok(true);
    }
    let Some(seen) = opening.settings.as_deref() else {
        return Ok(false);
    };
    let Some(now) = row.try_get::<Option<&str>, _>("settings")? else {
        return Ok(true);
    };
    let (team_write_enabled, policy_json): (u8, Map<String, Value>) = rows::document(now)?;
    let Settings {
        team_write_enabled: was_enabled,
        policy_json: policy,
        ..
    } = seen;
    Ok((team_write_enabled != 0, &policy_json) != (*was_enabled, policy))
}

fn found(row: &SqliteRow) -> Result<Option<Found>> {
    #[derive(serde::Deserialize)]
    struct Sent {
        outbox_id: i64,
        memory_id: Option<String>,
    }
    if let Some(sent) = row.try_get::<Option<&str>, _>("sent")? {
        let sent: Sent = rows::document(sent)?;
        return Ok(Some(Found {
            outbox_id: Some(MessageId(sent.outbox_id)),
            memory_id: sent.memory_id,
        }));
    }
    let stored: Option<String> = row.try_get("stored")?;
    Ok(stored.map(|memory_id| Found {
        outbox_id: None,
        memory_id: Some(memory_id),
    }))
}
