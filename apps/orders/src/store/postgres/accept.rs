//! The statement that accepts orders, one call for all of them.

use consign_postgres::extension::{Statement, rows};
use serde_json::{Map, Value};
use sqlx::types::Json;

use super::answer_from;
use crate::NewOrder;

/// Columns that no order uses are NULL.
pub(super) fn statement(orders: &[NewOrder]) -> Statement<'_> {
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
