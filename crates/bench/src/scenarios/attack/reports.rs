//! Reports that walk whole tables, 24 at once, requested again as soon as they are answered.

use anyhow::Result;
use async_trait::async_trait;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;

use super::{Attack, Target};
use crate::http::Client;

const CLIENTS: usize = 24;

pub(super) struct Reports;

#[async_trait]
impl Attack for Reports {
    fn name(&self) -> &'static str {
        "reports"
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let mut connection = PgConnection::connect(&target.database).await?;
        sqlx::raw_sql(include_str!("../../../sql/attack_audits.sql"))
            .execute(&mut connection)
            .await?;
        let mut asking = JoinSet::new();
        for _ in 0..CLIENTS {
            let target = target.clone();
            asking.spawn(async move {
                while !target.is_over() {
                    drop(ask(&target).await);
                }
            });
        }
        while asking.join_next().await.is_some() {}
        Ok(())
    }
}

async fn ask(target: &Target) -> Result<()> {
    let mut client = Client::connect(&target.address).await?;
    client.page("/reliability/report").await.map(drop)
}
