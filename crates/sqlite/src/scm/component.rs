//! Repositories as a component of the store.

use async_trait::async_trait;
use consign_kernel::{Migration, migrations};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::doctor;
use crate::{component::Component, doctor::Report, error::Result};

const MIGRATIONS: &[Migration] = migrations!["scm";
    (1, "scm", "../../migrations/scm/0001_scm.sql"),
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
        report: &mut Report,
    ) -> Result<()> {
        doctor::examine(connection, report).await
    }
}
