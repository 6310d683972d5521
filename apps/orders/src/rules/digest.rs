//! Digests of requests and results.

use consign_kernel::hex;
use ring::digest::{SHA256, digest};

use crate::{
    ExecResult,
    canonical::{canonical, canonical_without},
    json::{self, Json},
};

/// Fields that may differ between repeats of one request.
const NOT_DIGESTED: &[&str] = &["trace_id", "idempotency_key"];

/// The digest of a request: `sha256:` and 64 hexadecimal digits.
///
/// It covers what the client sent. Values that the server fills in, rounds or defaults never enter
/// it.
pub fn request_digest(request: &Json) -> String {
    sha256(&canonical_without(request, NOT_DIGESTED))
}

/// The digest of a result over its stable fields: status, order, instrument, side, executed
/// quantity, average price, fills and reason code. Canonical rules as for a request: a zero
/// quantity is `0`, never `0.0`, and text is not escaped.
pub fn result_digest(result: &ExecResult) -> String {
    sha256(&canonical(&stable(result)))
}

fn stable(result: &ExecResult) -> Json {
    let text = |text: &str| Json::Text(text.to_owned());
    let amount = |amount: crate::Amount| {
        json::Number::parse(&amount.to_string()).map_or(Json::Null, Json::Number)
    };
    let member = |name: &str, value: Json| (name.to_owned(), value);
    let fills = result.fills.iter().map(|fill| {
        Json::Object(vec![
            member("px", amount(fill.px)),
            member("qty", amount(fill.qty)),
            member("ts", text(&fill.ts.to_string())),
        ])
    });
    Json::Object(vec![
        member("status", text(result.status.as_str())),
        member("order_id", text(&result.order_id)),
        member("instrument", text(&result.instrument)),
        member(
            "side",
            result.side.map_or(Json::Null, |side| text(side.as_str())),
        ),
        member("executed_qty", amount(result.executed_qty)),
        member("avg_price", result.avg_price.map_or(Json::Null, amount)),
        member("fills", Json::List(fills.collect())),
        member(
            "reason_code",
            result
                .reason_code
                .map_or(Json::Null, |reason| text(reason.as_str())),
        ),
    ])
}

fn sha256(text: &str) -> String {
    format!("sha256:{}", hex(digest(&SHA256, text.as_bytes()).as_ref()))
}

#[cfg(test)]
mod tests;
