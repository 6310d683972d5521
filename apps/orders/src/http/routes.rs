//! HTTP handlers of orders. They read the caller, the key header and the preferred wait; the order
//! service does the rest.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Request, State},
    http::HeaderMap,
    response::Response,
};
use consign_server::apps::{
    Caller, Flat, GateState, IDEMPOTENCY_KEY, InPath, Problem, Slot, check_type, codes,
    continue_trace, flat_answer, preferred_wait, unquoted, whole,
};
use serde_json::Map;

use super::{
    OrdersHttp,
    wire::{OrderAnswer, OrderRequest, OrderState},
};
use crate::{Answer, Client, OrderService, PlaceCall};

/// Largest request body.
const ORDER_BYTES_MAX: usize = 64 * 1024;

/// Place an order
///
/// The first acceptance returns 201 once the order is durable; it is sent afterwards. A repeat of
/// the same request returns the order's current state or result with `Idempotency-Replayed: true`
/// and sends nothing. Fields that the server fills in, `trace_id` and the key do not take part in
/// the comparison. The body is limited to 64 KiB. Errors are flat: `{"error", "message"}`.
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
        (status = 201, description = "Accepted; with its result if it arrived within the wait", body = OrderAnswer),
        (status = 200, description = "A repeat: the accepted order, or its result", body = OrderAnswer),
    ),
)]
pub(super) async fn place(
    State(http): State<OrdersHttp>,
    Extension(shared): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Option<Slot>>,
    request: Request,
) -> Result<Response, Flat> {
    let (headers, body) = whole(request).await?;
    let orders = served(&http)?;
    check_type(&headers, "application/json")?;
    check_size(body.len())?;
    let key = header_key(&headers)?;
    let wait = preferred_wait(&headers).filter(|wait| !wait.is_zero());
    // A waiting request does no work and takes one of the slots for waiting requests; without a
    // free slot it is answered at once.
    let waiting = wait.and_then(|_| shared.waiting_place());
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

/// Show an order
///
/// Only the caller's own: another client's order under the same key is another order.
#[utoipa::path(
    get, path = "/do/order/{key}", operation_id = "show_order", tag = "orders",
    params(("key" = String, Path, description = "The order's idempotency key")),
    responses((status = 200, description = "The order's ledger entry", body = OrderState)),
)]
pub(super) async fn look(
    State(http): State<OrdersHttp>,
    Extension(caller): Extension<Caller>,
    key: Result<InPath<String>, Problem>,
) -> Result<Response, Flat> {
    let orders = served(&http)?;
    let InPath(key) = key?;
    Ok(rendered(orders.look(&client(&caller)?, &key).await))
}

/// Checked before parsing: the parser is not made for large bodies.
fn check_size(bytes: usize) -> Result<(), Problem> {
    if bytes <= ORDER_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("the body is longer than {ORDER_BYTES_MAX} bytes");
    Err(Problem::new(codes::BODY_TOO_LARGE, detail).with("bytes_max", ORDER_BYTES_MAX))
}

fn served(http: &OrdersHttp) -> Result<&OrderService, Flat> {
    let orders = http.service.as_deref();
    orders.ok_or_else(|| {
        let detail = "the app orders is off on this server";
        Problem::new(codes::NOT_FOUND, detail).into()
    })
}

/// The client whose keys these are.
fn client(caller: &Caller) -> Result<Client, Flat> {
    let name = caller.token.as_deref().unwrap_or(Client::LOCAL);
    Ok(name.parse()?)
}

/// The key of the header, quoted as in the draft standard, or bare; an empty one counts as missing.
fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let wrong = |why: &str| Err(Problem::invalid("Idempotency-Key", why));
    if values.next().is_some() {
        return wrong("occurs more than once");
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
    fn rejects_two_key_headers() {
        let mut headers = HeaderMap::new();
        for _ in 0..2 {
            headers.append(IDEMPOTENCY_KEY, "order-0001".parse().unwrap());
        }
        assert!(header_key(&headers).is_err());
    }
}
