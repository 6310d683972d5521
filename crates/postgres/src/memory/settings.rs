//! Settings and users.

use consign_kernel::Result;
use consign_memory::{NewAudit, NewUser, Settings, SettingsChange};
use sqlx::{postgres::PgRow, types::Json};

use super::audits::document;
use crate::{PostgresStore, rows};

impl PostgresStore {
    pub(super) async fn settings_impl(&self, project_key: &str) -> Result<Settings> {
        let sql = "SELECT * FROM governance.get_or_create_settings($1)";
        let statement = sqlx::query(sql).bind(project_key);
        settings(rows::only(&self.read("read settings", statement).await?)?)
    }

    pub(super) async fn change_settings_impl(
        &self,
        change: &SettingsChange,
        audit: &NewAudit,
    ) -> Result<Settings> {
        let sql = "SELECT * FROM logbook.change_settings($1, $2, $3, $4, $5, $6)";
        let statement = sqlx::query(sql)
            .bind(&change.project_key)
            .bind(change.team_write_enabled)
            .bind(Json(&change.policy_json))
            .bind(change.replace)
            .bind(&change.updated_by)
            .bind(Json(document(audit)));
        settings(rows::only(
            &self.fetch("change settings", statement).await?,
        )?)
    }

    pub(super) async fn user_exists_impl(&self, user_id: &str) -> Result<bool> {
        let sql = "SELECT FROM identity.users WHERE user_id = $1 AND is_active";
        let rows = self.read("look up a user", sqlx::query(sql).bind(user_id));
        Ok(!rows.await?.is_empty())
    }

    pub(super) async fn create_user_impl(&self, user: &NewUser) -> Result<()> {
        let statement = sqlx::query("SELECT FROM logbook.create_user($1, $2)")
            .bind(&user.user_id)
            .bind(&user.display_name);
        self.fetch("make a user", statement).await.map(drop)
    }
}

fn settings(row: &PgRow) -> Result<Settings> {
    let Json(policy_json) = rows::column(row, "policy_json")?;
    Ok(Settings {
        project_key: rows::column(row, "project_key")?,
        team_write_enabled: rows::column(row, "team_write_enabled")?,
        policy_json,
        updated_by: rows::column(row, "updated_by")?,
        updated_at: rows::time(row, "updated_at")?,
    })
}
