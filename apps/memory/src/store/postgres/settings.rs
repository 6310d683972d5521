//! Settings and users.

use crate::{NewAudit, NewUser, Settings, SettingsChange};
use consign_kernel::Result;
use sqlx::{postgres::PgRow, types::Json};

use super::audits::document;
use consign_postgres::{PostgresStore, extension::rows};

pub(super) async fn settings(store: &PostgresStore, project_key: &str) -> Result<Settings> {
    let sql = "SELECT * FROM governance.get_or_create_settings($1)";
    let statement = sqlx::query(sql).bind(project_key);
    settings_of(rows::only(&store.read("read settings", statement).await?)?)
}

pub(super) async fn change_settings(
    store: &PostgresStore,
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
    settings_of(rows::only(
        &store.fetch("change settings", statement).await?,
    )?)
}

pub(super) async fn user_exists(store: &PostgresStore, user_id: &str) -> Result<bool> {
    let sql = "SELECT FROM identity.users WHERE user_id = $1 AND is_active";
    let rows = store.read("look up a user", sqlx::query(sql).bind(user_id));
    Ok(!rows.await?.is_empty())
}

pub(super) async fn create_user(store: &PostgresStore, user: &NewUser) -> Result<()> {
    let statement = sqlx::query("SELECT FROM logbook.create_user($1, $2)")
        .bind(&user.user_id)
        .bind(&user.display_name);
    store.fetch("make a user", statement).await.map(drop)
}

fn settings_of(row: &PgRow) -> Result<Settings> {
    let Json(policy_json) = rows::column(row, "policy_json")?;
    Ok(Settings {
        project_key: rows::column(row, "project_key")?,
        team_write_enabled: rows::column(row, "team_write_enabled")?,
        policy_json,
        updated_by: rows::column(row, "updated_by")?,
        updated_at: rows::time(row, "updated_at")?,
    })
}
