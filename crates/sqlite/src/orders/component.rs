//! OrdersComponent as a component of the store.

use async_trait::async_trait;
use consign_kernel::{Error, Message, Migration, NewMessage, Resolution, StateKind, migrations};
use consign_orders::QUEUE;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::doctor;
use crate::{
    component::{Component, Hook},
    doctor::Report,
    error::Result,
};

const MIGRATIONS: &[Migration] = migrations!["orders";
    (1, "orders", "../../migrations/orders/0001_orders.sql"),
];

/// The component `orders`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrdersComponent;

#[async_trait]
impl Component for OrdersComponent {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    fn hook(&self) -> Option<&dyn Hook> {
        Some(self)
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

impl Hook for OrdersComponent {
    fn queue(&self) -> &'static str {
        QUEUE
    }

    fn check_enqueue(&self, _message: &NewMessage) -> consign_kernel::Result<()> {
        let why = "takes orders only. Use POST /do/order";
        Err(Error::invalid(format!("queue {QUEUE}"), why))
    }

    fn resolve(
        &self,
        message: &Message,
        resolution: &Resolution,
    ) -> consign_kernel::Result<Option<Value>> {
        if resolution.state() != StateKind::Delivered {
            return Ok(None);
        }
        let result = consign_orders::resolved(&message.payload, resolution.result())?;
        Ok(Some(result))
    }
}
