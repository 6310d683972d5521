//! Repositories as a component of the store.

use async_trait::async_trait;
use consign_kernel::{Migration, migrations};
use consign_sqlite::{
    Component,
    extension::{Findings, Result},
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::doctor;

const MIGRATIONS: &[Migration] = migrations!["scm" requires ["memory"];
    (1, "scm", "migrations/0001_scm.sql"),
];

/// The component `scm`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScmComponent;

#[async_trait]
impl Component for ScmComponent {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    async fn examine(
        &self,
        connection: &mut SqliteConnection,
        _now: Timestamp,
        report: &mut Findings,
    ) -> Result<()> {
        doctor::examine(connection, report).await
    }
}
