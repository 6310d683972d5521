//! HTTP responses to clients.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Amount, LedgerEntry, LedgerStatus, Reason};

/// Marks a replayed response.
pub(crate) const REPLAYED: &str = "idempotency-replayed";
/// Seconds to wait before the next call.
pub(crate) const RETRY_AFTER: &str = "retry-after";
/// Which preference of the request was honoured.
pub(crate) const PREFERENCE_APPLIED: &str = "preference-applied";

/// An HTTP response, independent of the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Headers in lower case, besides those every answer has.
    pub headers: Vec<(&'static str, String)>,
    /// JSON text.
    pub body: String,
}

impl Answer {
    pub(crate) fn new(status: u16, body: String) -> Self {
        let headers = Vec::new();
        Self {
            status,
            headers,
            body,
        }
    }

    /// A flat error: the code, a sentence, and further fields.
    pub(crate) fn refused(reason: Reason, message: &str, more: Value) -> Self {
        Self::refused_with(reason.http_status(), reason, message, more)
    }

    /// A flat error with another status than the default of its code.
    pub(crate) fn refused_with(status: u16, reason: Reason, message: &str, more: Value) -> Self {
        let mut body = Map::new();
        body.insert("error".into(), reason.as_str().into());
        body.insert("message".into(), message.into());
        if let Value::Object(more) = more {
            body.extend(more);
        }
        Self::new(status, Value::Object(body).to_string())
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// The response to a first acceptance and to every repeat while there is no result.
    pub(crate) fn accepted(status: u16, entry: &LedgerEntry) -> Self {
        #[derive(Serialize)]
        struct AcceptedBody<'e> {
            status: &'static str,
            idempotency_key: &'e str,
            #[serde(skip_serializing_if = "Option::is_none")]
            outbox_id: Option<i64>,
            request_digest: &'e str,
            expires_at: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            qty_sent: Option<Amount>,
            #[serde(skip_serializing_if = "Option::is_none")]
            price_sent: Option<Option<Amount>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            warnings: Option<&'e [String]>,
        }
        let sent = entry.sent.as_ref();
        let body = AcceptedBody {
            status: entry.status.as_str(),
            idempotency_key: entry.key.as_str(),
            outbox_id: entry.outbox_id.map(|id| id.0),
            request_digest: &entry.request_digest,
            expires_at: entry.expires_at.to_string(),
            qty_sent: sent.map(|sent| sent.qty),
            price_sent: sent.map(|sent| sent.price),
            warnings: sent.map(|sent| sent.warnings.as_slice()),
        };
        let body = serde_json::to_string(&body).expect("invariant: plain text and numbers");
        Self::new(status, body)
    }

    /// The response for a ledger row: its stored result byte for byte, if it has one.
    ///
    /// `fresh` is the status of a first acceptance; `None` for a repeat.
    pub(crate) fn of_entry(entry: &LedgerEntry, fresh: Option<u16>) -> Self {
        let answer = match (&entry.response, entry.status) {
            (Some(response), LedgerStatus::Succeeded) => {
                Self::new(fresh.unwrap_or(entry.http_status), response.clone())
            }
            (Some(response), LedgerStatus::Failed) => {
                Self::new(entry.http_status, response.clone())
            }
            // A result without a body: an operator resolved the order by hand.
            (None, LedgerStatus::Succeeded | LedgerStatus::Failed) => {
                let status = match entry.status {
                    LedgerStatus::Succeeded => fresh.unwrap_or(entry.http_status),
                    _ => entry.http_status,
                };
                let key = entry.key.as_str();
                let body = json!({ "status": entry.status.as_str(), "idempotency_key": key });
                Self::new(status, body.to_string())
            }
            (_, LedgerStatus::Accepted) => Self::accepted(fresh.unwrap_or(200), entry),
        };
        match fresh {
            Some(_) => answer,
            None => answer.with_header(REPLAYED, true),
        }
    }

    /// The full state of a key in the ledger.
    pub(crate) fn state(entry: &LedgerEntry) -> Self {
        let known = json!({
            "status": entry.status.as_str(),
            "idempotency_key": entry.key.as_str(),
            "request_digest": entry.request_digest,
            "result_digest": entry.result_digest,
            "http_status": entry.http_status,
            "outbox_id": entry.outbox_id.map(|id| id.0),
            "conflicts": entry.conflicts,
            "first_seen_at": entry.first_seen_at.to_string(),
            "last_seen_at": entry.last_seen_at.to_string(),
            "expires_at": entry.expires_at.to_string(),
            "order_expires_at": entry.order_expires_at.map(|at| at.to_string()),
        });
        let mut body = known.to_string();
        body.truncate(body.len() - 1);
        // Amounts go in as text: they must not pass through floating point.
        if let Some(sent) = &entry.sent {
            let price = sent
                .price
                .map_or("null".to_owned(), |price| price.to_string());
            let (qty, warnings) = (sent.qty, json!(sent.warnings));
            let more = format!(r#","qty_sent":{qty},"price_sent":{price},"warnings":{warnings}"#);
            body.push_str(&more);
        }
        body.push_str(r#","exec_result":"#);
        body.push_str(entry.response.as_deref().unwrap_or("null"));
        body.push('}');
        Self::new(200, body)
    }
}
