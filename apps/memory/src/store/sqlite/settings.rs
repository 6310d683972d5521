//! Settings of projects, and users.

use crate::{NewAudit, NewUser, Settings, SettingsChange};
use consign_kernel::Error;
use sqlx::SqliteConnection;

use super::rows as logbook;
use crate::store::sqlite::{LogbookWork, sql};
use consign_sqlite::extension::{Failure, Result, rows};

pub(super) async fn settings(
    connection: &mut SqliteConnection,
    project_key: &str,
) -> Result<Option<Settings>> {
    let found = sqlx::query(sql!("settings_get"))
        .bind(project_key)
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(logbook::settings).transpose()
}

pub(super) async fn user_exists(connection: &mut SqliteConnection, user_id: &str) -> Result<bool> {
    let exists = sqlx::query_scalar(sql!("user_exists"))
        .bind(user_id)
        .fetch_one(connection)
        .await?;
    Ok(exists)
}

impl LogbookWork<'_, '_> {
    pub(super) async fn make_settings(&mut self, project_key: &str) -> Result<Settings> {
        if project_key.is_empty() {
            return Err(Error::invalid("project_key", "must not be empty").into());
        }
        sqlx::query(sql!("settings_make"))
            .bind(project_key)
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        let made = settings(self.connection, project_key).await?;
        made.ok_or_else(|| Failure::corrupt("new settings disappeared"))
    }

    pub(super) async fn change_settings(
        &mut self,
        change: &SettingsChange,
        audit: &NewAudit,
    ) -> Result<Settings> {
        // Everything is validated before the first write.
        self.check_audit(audit).await?;
        check_user_id(change.updated_by.as_deref().unwrap_or("nobody"))?;
        let current = self.make_settings(&change.project_key).await?;
        if let Some(user) = &change.updated_by {
            let user = NewUser {
                user_id: user.clone(),
                display_name: user.clone(),
            };
            self.create_user(&user).await?;
        }
        let mut policy = change.policy_json.clone();
        if !change.replace {
            policy = current.policy_json;
            policy.extend(change.policy_json.clone());
        }
        let changed = sqlx::query(sql!("settings_change"))
            .bind(&change.project_key)
            .bind(
                change
                    .team_write_enabled
                    .unwrap_or(current.team_write_enabled),
            )
            .bind(rows::json(&policy))
            .bind(change.updated_by.as_ref().or(current.updated_by.as_ref()))
            .bind(rows::micros(self.now))
            .fetch_one(&mut *self.connection)
            .await?;
        let changed = logbook::settings(&changed)?;
        self.add_audit(audit).await?;
        Ok(changed)
    }

    pub(super) async fn create_user(&mut self, user: &NewUser) -> Result<()> {
        check_user_id(&user.user_id)?;
        sqlx::query(sql!("user_make"))
            .bind(&user.user_id)
            .bind(&user.display_name)
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// Rejects unknown users.
    pub(super) async fn check_user(&mut self, what: &str, user_id: Option<&str>) -> Result<()> {
        let Some(user_id) = user_id else {
            return Ok(());
        };
        let is_known: bool = sqlx::query_scalar(sql!("user_known"))
            .bind(user_id)
            .fetch_one(&mut *self.connection)
            .await?;
        if is_known {
            Ok(())
        } else {
            Err(Error::invalid(what, format!("user {user_id:?} does not exist; create it")).into())
        }
    }
}

fn check_user_id(user_id: &str) -> consign_kernel::Result<()> {
    if user_id.is_empty() {
        Err(Error::invalid("user_id", "must not be empty"))
    } else {
        Ok(())
    }
}
