//! Orders. Thin: who calls, which key the header names, how long the caller would wait; the rest is
//! the order service's.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    http::HeaderMap,
    response::Response,
};
use consign_orders::{Answer, Client, OrderService, PlaceCall};
use serde_json::Map;

use super::{
    enqueue::{IDEMPOTENCY_KEY, continue_trace, unquoted},
    flat_answer,
};
use crate::{
    extract::{InPath, check_type, whole},
    gate::{Shared, access::Caller, slots::Slot},
    prefer,
    problem::{Flat, Problem, codes},
    state::AppState,
    wire::orders::{OrderAnswer, OrderRequest, OrderState},
};

/// The largest body of an order.
const ORDER_BYTES_MAX: usize = 64 * 1024;

/// Place an order
///
/// The first acceptance answers 201 once the order is durable; it is sent afterwards. A repeat of
/// the same request answers what became of it, with `Idempotency-Replayed: true`, and sends nothing.
/// Fields the server fills in, `trace_id` and the key are no part of what makes requests the same.
/// A body may have 64 KiB. Errors are flat: `{"error", "message"}`.
#[utoipa::path(
    post, path = "/do/order", operation_id = "place_order", tag = "orders",
    params(
        ("Idempotency-Key" = String, Header, description = "The order's key, as in the body"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: wait N seconds for the result"),
        ("traceparent" = Option<String>, Header, description = "Kept as a header of the message"),
        ("tracestate" = Option<String>, Header, description = "Kept as a header of the message"),
    ),
    request_body = OrderRequest,
    responses(
        (status = 201, description = "Accepted; with its result if that came in time", body = OrderAnswer),
        (status = 200, description = "A repeat: on its way, or its result", body = OrderAnswer),
    ),
)]
pub(crate) async fn place(
    State(state): State<AppState>,
    Extension(shared): Extension<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Option<Slot>>,
    request: Request,
) -> Result<Response, Flat> {
    let (headers, body) = whole(request).await?;
    let orders = served(&state)?;
    check_type(&headers, "application/json")?;
    check_size(body.len())?;
    let key = header_key(&headers)?;
    let wait = prefer::wait(&headers).filter(|wait| !wait.is_zero());
    // A request that waits does no work, and has a place among those that wait; where there is
    // none left, it is answered without waiting.
    let waiting = wait.and_then(|_| shared.slots.wait());
    if waiting.is_some() {
        slot.iter().for_each(Slot::give_up);
    }
    let mut message_headers = Map::new();
    continue_trace(&headers, &mut message_headers);
    let call = PlaceCall {
        client: &client(&caller)?,
        header_key: key.as_deref(),
        body: &body,
        wait: wait.filter(|_| waiting.is_some()),
        headers: message_headers,
    };
    Ok(rendered(orders.place(call).await))
}

/// What became of an order
///
/// Only of the caller's own: another client's order under the same key is another order.
#[utoipa::path(
    get, path = "/do/order/{key}", operation_id = "show_order", tag = "orders",
    params(("key" = String, Path, description = "The order's idempotency key")),
    responses((status = 200, description = "What the ledger knows", body = OrderState)),
)]
pub(crate) async fn look(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    key: Result<InPath<String>, Problem>,
) -> Result<Response, Flat> {
    let orders = served(&state)?;
    let InPath(key) = key?;
    Ok(rendered(orders.look(&client(&caller)?, &key).await))
}

/// Before anything is parsed: no order is so large, and what reads one is not made for it.
fn check_size(bytes: usize) -> Result<(), Problem> {
    if bytes <= ORDER_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("an order's body may have {ORDER_BYTES_MAX} bytes");
    Err(Problem::new(codes::BODY_TOO_LARGE, detail).with("bytes_max", ORDER_BYTES_MAX))
}

fn served(state: &AppState) -> Result<&OrderService, Flat> {
    let orders = state.orders.as_deref();
    orders.ok_or_else(|| {
        let detail = "this server takes no orders: orders.enabled is false";
        Problem::new(codes::NOT_FOUND, detail).into()
    })
}

/// Whose keys these are.
fn client(caller: &Caller) -> Result<Client, Flat> {
    let name = caller.token.as_deref().unwrap_or(Client::LOCAL);
    Ok(name.parse()?)
}

/// The key of the header, quoted as the draft standard wants it or bare; one that is empty is none.
fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    let wrong = |why: &str| Err(Problem::invalid("Idempotency-Key", why));
    if given.next().is_some() {
        return wrong("was given more than once");
    }
    let Ok(text) = std::str::from_utf8(value.as_bytes()) else {
        return wrong("is not UTF-8");
    };
    let quoted = text.strip_prefix('"').and_then(unquoted);
    let key = quoted.unwrap_or_else(|| text.to_owned());
    Ok(Some(key).filter(|key| !key.is_empty()))
}

fn rendered(answer: Answer) -> Response {
    flat_answer(answer.status, answer.headers, answer.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, text.parse().unwrap());
        header_key(&headers).unwrap()
    }

    #[test]
    fn a_key_is_taken_as_it_is_or_out_of_its_quotes() {
        for (text, expected) in [
            ("order-0001", Some("order-0001")),
            ("\"order-0001\"", Some("order-0001")),
            ("\"order-0001", Some("\"order-0001")),
            ("Ordér-0001", Some("Ordér-0001")),
            ("", None),
        ] {
            assert_eq!(key(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn two_keys_are_one_too_many() {
        let mut headers = HeaderMap::new();
        for _ in 0..2 {
            headers.append(IDEMPOTENCY_KEY, "order-0001".parse().unwrap());
        }
        assert!(header_key(&headers).is_err());
    }
}
