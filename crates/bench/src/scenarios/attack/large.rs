//! A backlog of 700 messages of a mebibyte in a queue that the process delivers.

use anyhow::Result;
use async_trait::async_trait;
use sqlx::{Connection, PgConnection};

use super::{Attack, Target};
use crate::receiver::Receiver;

const TENS: u32 = 70;

pub(super) struct LargeBodies;

#[async_trait]
impl Attack for LargeBodies {
    fn name(&self) -> &'static str {
        "large"
    }

    fn settings(&self, receiver: &Receiver) -> String {
        receiver.queue("large", "")
    }

    async fn run(&self, target: &Target) -> Result<()> {
        let mut connection = PgConnection::connect(&target.database).await?;
        for _ in 0..TENS {
            // Committed one by one, so that the process has them while more come.
            sqlx::raw_sql(include_str!("../../../sql/attack_large.sql"))
                .execute(&mut connection)
                .await?;
        }
        Ok(())
    }
}
