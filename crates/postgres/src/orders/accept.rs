//! Entering orders into the ledger: with a message each, or sent within the request.

use std::time::Duration;

use consign_kernel::Result;
use consign_orders::{Accepted, Ended, LedgerEntry, LedgerStatus, NewOrder, Sent};
use serde_json::{Map, Value};
use sqlx::{postgres::PgRow, types::Json};

use super::entry::entry;
use crate::{PostgresStore, pools::Use, rows, store::Statement};

/// The columns of a `consign.order_answer`, with the answer's body as the text it was stored as.
macro_rules! answer_from {
    ($function:literal) => {
        concat!(
            "SELECT answer, client, idempotency_key, request_digest, result_digest, status, \
             first_seen_at, last_seen_at, expires_at, order_expires_at, \
             response_payload_json::text AS response, http_status, outbox_id, conflicts, \
             sent::text AS sent FROM ",
            $function
        )
    };
}
pub(super) use answer_from;

impl PostgresStore {
    pub(crate) async fn accept_impl(&self, orders: &[NewOrder]) -> Result<Vec<Accepted>> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let statement = statement(orders);
        // Of several, one may have to wait for another transaction: then each is tried alone.
        let rows = if orders.len() > 1 {
            self.fetch_as(Use::Batch, "accept orders", statement)
                .await?
        } else {
            self.fetch("accept orders", statement).await?
        };
        if rows.len() != orders.len() {
            let what = "orders were answered with another number of rows";
            return Err(rows::corrupt(what));
        }
        let answers = rows.iter().zip(orders);
        answers.map(|(row, order)| accepted(row, order)).collect()
    }

    pub(crate) async fn open_direct_impl(
        &self,
        order: &NewOrder,
        give_up_after: Duration,
    ) -> Result<Accepted> {
        let sql = answer_from!("consign.open_direct_order($1, $2, $3, $4, $5, $6)");
        let statement = sqlx::query(sql)
            .bind(order.client.as_str())
            .bind(order.key.as_str())
            .bind(&order.request_digest)
            .bind(Json(&order.payload))
            .bind(rows::interval(order.ttl))
            .bind(rows::interval(give_up_after));
        let rows = self.fetch("open an order", statement).await?;
        let row = rows.first();
        let row = row.ok_or_else(|| rows::corrupt("an order was not answered"))?;
        accepted(row, order)
    }

    pub(crate) async fn close_direct_impl(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &Ended,
    ) -> Result<Option<LedgerEntry>> {
        let sql =
            answer_from!("consign.close_direct_order($1, $2, $3, $4, $5, $6, $7::text::json)");
        let statement = sqlx::query(sql)
            .bind(order.client.as_str())
            .bind(order.key.as_str())
            .bind(&order.request_digest)
            .bind(status.as_str())
            .bind(i32::from(ended.http_status))
            .bind(&ended.result_digest)
            .bind(&ended.exec_result);
        let rows = self.fetch("close an order", statement).await?;
        rows.first().map(entry).transpose()
    }
}

/// One call for all orders; columns nobody uses go as NULL.
fn statement(orders: &[NewOrder]) -> Statement<'_> {
    fn headers(order: &NewOrder) -> Json<&Map<String, Value>> {
        Json(&order.headers)
    }
    let have_headers = orders.iter().any(|order| !order.headers.is_empty());
    let have_max_ages = orders.iter().any(|order| order.max_age.is_some());
    let sql = answer_from!("consign.accept_orders($1, $2, $3, $4, $5, $6, $7)");
    sqlx::query(sql)
        .bind(texts(orders, |order| order.client.as_str()))
        .bind(texts(orders, |order| order.key.as_str()))
        .bind(texts(orders, |order| &order.request_digest))
        .bind(
            orders
                .iter()
                .map(|order| Json(&order.payload))
                .collect::<Vec<_>>(),
        )
        .bind(have_headers.then(|| orders.iter().map(headers).collect::<Vec<_>>()))
        .bind(
            orders
                .iter()
                .map(|order| rows::interval(order.ttl))
                .collect::<Vec<_>>(),
        )
        .bind(have_max_ages.then(|| {
            let max_age = |order: &NewOrder| order.max_age.map(rows::interval);
            orders.iter().map(max_age).collect::<Vec<_>>()
        }))
}

fn texts<'o>(orders: &'o [NewOrder], text: impl Fn(&'o NewOrder) -> &'o str) -> Vec<&'o str> {
    orders.iter().map(text).collect()
}

fn accepted(row: &PgRow, order: &NewOrder) -> Result<Accepted> {
    let entry = entry(row)?;
    match rows::column::<&str>(row, "answer")? {
        // What the caller has just handed over is not sent back by the database.
        "new" => Ok(Accepted::New(LedgerEntry {
            sent: Sent::of_payload(&order.payload),
            ..entry
        })),
        "same" => Ok(Accepted::Same(entry)),
        "conflict" => Ok(Accepted::Conflict(entry)),
        other => Err(rows::corrupt(format!("answer {other:?}"))),
    }
}
