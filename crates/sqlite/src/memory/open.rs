//! The beginning of a write: everything that is asked before it and its audit, in one transaction.

use consign_memory::{AuditStatus, Found, Kept, NewAudit, NewMemory, Opened, Opening, Settings};
use serde_json::{Map, Value, json};
use sqlx::{Row, sqlite::SqliteRow};

use super::{
    audit::{check_shape, lay_over, pending_already},
    known::{check_dedup, has_unsent_row, may_be_stored},
    search::kept,
};
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
        let is_open: bool = row.try_get("is_open")?;
        let backend = audit.evidence_refs_json.get("backend");
        let backend = backend.and_then(Value::as_str);
        let found = match opening.is_deduplicated {
            true => check_dedup(self.connection, (space, sha), backend).await?,
            false => None,
        };
        let Some(memory) = &opening.kept else {
            return match found {
                Some(found) => Ok(Opened::Known(found)),
                None => self.begin_audited(audit, backend, is_open).await,
            };
        };
        let is_known = found.is_some();
        if let Some(found) = found
            && let Some(memory_id) = kept(self.connection, space, sha).await?
        {
            return Ok(Opened::Known(Found {
                memory_id: Some(memory_id),
                ..found
            }));
        }
        let kept = self.keep_audited(opening, memory, is_known).await?;
        Ok(Opened::Kept(kept))
    }

    /// Writes the pending audit.
    async fn begin_audited(
        &mut self,
        audit: &NewAudit,
        backend: Option<&str>,
        is_open: bool,
    ) -> Result<Opened> {
        check_shape(audit)?;
        if is_open {
            return Err(pending_already().into());
        }
        let sha = audit.payload_sha.as_deref().unwrap_or_default();
        let memory = (audit.target_space.as_str(), sha);
        let in_doubt = may_be_stored(self.connection, memory, backend).await?
            || has_unsent_row(self.connection, memory, backend).await?;
        self.add_audit(audit).await?;
        Ok(Opened::Pending { in_doubt })
    }

    /// Keeps a memory with its audit, which has ended. `is_gone`: it was kept before.
    async fn keep_audited(
        &mut self,
        opening: &Opening,
        memory: &NewMemory,
        is_gone: bool,
    ) -> Result<Kept> {
        let mut audit = opening.audit.clone();
        audit.status = AuditStatus::Success;
        check_shape(&audit)?;
        let kept = self.keep(memory).await?;
        let name = kept.memory_id.as_str();
        let mut patch = json!({"memory_id": name, "gateway_event": {"memory_id": name}});
        if is_gone {
            patch["extra"] = json!({"stored_again": true});
        }
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
