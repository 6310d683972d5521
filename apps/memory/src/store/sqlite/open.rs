//! The opening of a write: the checks before it and its audit, in one transaction.

use crate::{
    AuditEnd, AuditStatus, KeepResult, KnownMemory, NewAudit, NewMemory, OpenResult, Opening,
    Settings, audit_json::merge,
};
use serde_json::{Map, Value};
use sqlx::{Row, sqlite::SqliteRow};

use super::{
    audit::{check_shape, pending_already},
    dedup::{check_dedup, has_unsent_row, may_be_stored},
    search::kept,
};
use crate::store::sqlite::{LogbookWork, sql};
use consign_sqlite::extension::{Failure, Result, arguments, rows};

impl LogbookWork<'_, '_> {
    pub(super) async fn open_write(&mut self, opening: &Opening) -> Result<OpenResult> {
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
            return Err(Failure::corrupt("a query without tables returned no row"));
        };
        if is_stale(opening, row)? {
            return Ok(OpenResult::Stale);
        }
        let is_open: bool = row.try_get("is_open")?;
        let backend = audit.evidence_refs_json.get("backend");
        let backend = backend.and_then(Value::as_str);
        let found = if opening.is_deduplicated {
            check_dedup(self.connection, (space, sha), backend).await?
        } else {
            None
        };
        let Some(memory) = &opening.kept else {
            return match found {
                Some(found) => Ok(OpenResult::Known(found)),
                None => self.begin_audited(audit, backend, is_open).await,
            };
        };
        let is_known = found.is_some();
        if let Some(found) = found
            && let Some(memory_id) = kept(self.connection, space, sha).await?
        {
            return Ok(OpenResult::Known(KnownMemory {
                memory_id: Some(memory_id),
                ..found
            }));
        }
        let kept = self.keep_audited(opening, memory, is_known).await?;
        Ok(OpenResult::Kept(kept))
    }

    /// Writes the pending audit.
    async fn begin_audited(
        &mut self,
        audit: &NewAudit,
        backend: Option<&str>,
        is_open: bool,
    ) -> Result<OpenResult> {
        check_shape(audit)?;
        if is_open {
            return Err(pending_already().into());
        }
        let sha = audit.payload_sha.as_deref().unwrap_or_default();
        let memory = (audit.target_space.as_str(), sha);
        let in_doubt = may_be_stored(self.connection, memory, backend).await?
            || has_unsent_row(self.connection, memory, backend).await?;
        self.add_audit(audit).await?;
        Ok(OpenResult::Pending { in_doubt })
    }

    /// Keeps a memory with its ended audit. `is_gone`: it was kept before and removed since.
    async fn keep_audited(
        &mut self,
        opening: &Opening,
        memory: &NewMemory,
        is_gone: bool,
    ) -> Result<KeepResult> {
        let mut audit = opening.audit.clone();
        audit.status = AuditStatus::Success;
        check_shape(&audit)?;
        let kept = self.keep(memory).await?;
        let end = AuditEnd::stored(&kept.memory_id, is_gone);
        if let Value::Object(document) = &mut audit.evidence_refs_json {
            merge(document, &end.patch);
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
