//! An operator's resolution of an order in doubt.
//!
//! ```json
//! {"order_ref": "B-17", "avg_price": 146.125,
//!  "fills": [{"px": 146.12, "qty": "0.06", "ts": "2026-11-17T10:00:00Z"}]}
//! ```
//!
//! Amounts are numbers or text. The PostgreSQL store repeats these rules in SQL
//! (`consign.resolved_order`), because operators resolve orders there; the conformance suite
//! compares both.

use consign_kernel::{Error, Payload, Result};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Amount, BrokerRef, ExecResult, ExecStatus, Fill, Masker, Order, StoredOrder, average_price,
    json::{self, Json},
    rules::exec_result::AVERAGE_ERROR_MAX,
    rules::request::utc,
};

/// Warning in the result of a resolved order.
const WARNING: &str = "the outcome was in doubt; an operator found it in the broker's books";

const FILLS_MAX: usize = 1_000;
const ORDER_REF_CHARS_MAX: usize = 256;

/// The execution of an order as an operator states it. Nothing is inferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Execution {
    /// The broker's id of the order.
    pub order_ref: String,
    /// All fills.
    pub fills: Vec<Fill>,
    /// The average price, if stated: checked against the fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg_price: Option<Amount>,
}

impl Execution {
    /// Parses a statement; rejects missing, unknown, repeated and inexact fields.
    pub fn parse(text: &str) -> Result<Self> {
        let document = json::parse_strict(text).map_err(refuse)?;
        let members = object(&document, "", &["order_ref", "fills", "avg_price"])?;
        let fills = match member(members, "fills") {
            Some(Json::List(fills)) if (1..=FILLS_MAX).contains(&fills.len()) => fills,
            _ => return Err(refuse(format!("fills must be a list of 1 to {FILLS_MAX}"))),
        };
        let fills = fills.iter().enumerate();
        let avg_price = match member(members, "avg_price") {
            None | Some(Json::Null) => None,
            value => Some(amount(value, "avg_price")?),
        };
        Ok(Self {
            order_ref: order_ref(member(members, "order_ref"))?,
            fills: fills
                .map(|(index, value)| fill(index, value))
                .collect::<Result<_>>()?,
            avg_price,
        })
    }

    /// As JSON text; amounts exact.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: text and numbers")
    }

    /// The result of `order`, validated like a broker's answer.
    fn exec_result(self, order: &Order) -> Result<ExecResult> {
        let average = average_price(&self.fills);
        let quantities = self.fills.iter().map(|fill| fill.qty);
        let executed_qty = quantities.into_iter().try_fold(Amount::ZERO, Amount::plus);
        let (Some(average), Some(executed_qty)) = (average, executed_qty) else {
            return Err(refuse("the fills are too large to be summed up"));
        };
        if let Some(stated) = self.avg_price
            && stated.distance(average) > AVERAGE_ERROR_MAX
        {
            let why = format!("avg_price is {stated}, the average of the fills is {average}");
            return Err(refuse(why));
        }
        let last = self.fills.iter().map(|fill| fill.ts).max();
        let result = ExecResult {
            status: ExecStatus::Ok,
            completed_at: last.unwrap_or(order.requested_at),
            fills: self.fills,
            avg_price: Some(self.avg_price.unwrap_or(average)),
            executed_qty,
            broker: BrokerRef {
                name: "unknown".to_owned(),
                order_ref: Some(self.order_ref),
            },
            warnings: vec![WARNING.to_owned()],
            ..ExecResult::nothing(order.into())
        };
        let faults = result.faults(order, None);
        if !faults.is_empty() {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            return Err(refuse(faults.join("; ")));
        }
        Ok(result.into_stored(order, &Masker::default()))
    }
}

/// The attempt result of an order resolved as executed: the ledger's
/// [`FinalResult`](crate::FinalResult). `payload` is the message's, `statement` the operator's.
pub fn resolved(payload: &Payload, statement: Option<&str>) -> Result<Value> {
    let Some(statement) = statement else {
        let why = "an order is executed only with its result: order_ref and fills (px, qty, ts), \
            as in the broker's books; without them resolve it as dead (not executed) or unknown";
        return Err(refuse(why));
    };
    let execution = Execution::parse(statement)?;
    let order = StoredOrder::read(payload).and_then(|stored| stored.order());
    let order = order.map_err(|malformed| refuse(malformed.to_string()))?;
    Ok(json!(execution.exec_result(&order)?.ended()))
}

fn refuse(why: impl Into<String>) -> Error {
    Error::invalid("result", why)
}

fn object<'j>(value: &'j Json, of: &str, known: &[&str]) -> Result<&'j [(String, Json)]> {
    let Json::Object(members) = value else {
        return Err(refuse(format!("{of} must be an object").trim_start()));
    };
    let unknown = members
        .iter()
        .find(|(name, _)| !known.contains(&name.as_str()));
    match unknown {
        None => Ok(members),
        Some((name, _)) => {
            let name: String = name.chars().take(64).collect();
            let known = known.join(", ");
            Err(refuse(format!(
                "unknown field {name:?}; known fields: {known}"
            )))
        }
    }
}

fn member<'j>(members: &'j [(String, Json)], name: &str) -> Option<&'j Json> {
    let found = members.iter().find(|(key, _)| key == name);
    found.map(|(_, value)| value)
}

fn order_ref(value: Option<&Json>) -> Result<String> {
    let text = value.and_then(Json::as_text).unwrap_or_default();
    let is_plain = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if is_plain && text.chars().count() <= ORDER_REF_CHARS_MAX {
        return Ok(text.to_owned());
    }
    Err(refuse(format!(
        "order_ref must be the broker's name for the order, 1 to {ORDER_REF_CHARS_MAX} characters"
    )))
}

fn fill(index: usize, value: &Json) -> Result<Fill> {
    let place = format!("fills.{index}");
    let members = object(value, &place, &["px", "qty", "ts"])?;
    let ts = member(members, "ts").and_then(Json::as_text).and_then(utc);
    Ok(Fill {
        px: amount(member(members, "px"), &format!("{place}.px"))?,
        qty: amount(member(members, "qty"), &format!("{place}.qty"))?,
        ts: ts.filter(is_of_microseconds).ok_or_else(|| {
            refuse(format!(
                "{place}.ts must be a time in UTC such as 2026-11-17T10:00:00Z, to the microsecond"
            ))
        })?,
    })
}

/// PostgreSQL stores microseconds.
fn is_of_microseconds(at: &Timestamp) -> bool {
    at.subsec_nanosecond() % 1_000 == 0
}

fn amount(value: Option<&Json>, place: &str) -> Result<Amount> {
    let amount = match value {
        Some(Json::Number(number)) => Amount::try_from(number).ok(),
        Some(Json::Text(text)) => text.parse().ok(),
        _ => None,
    };
    amount.filter(|amount| amount.is_positive()).ok_or_else(|| {
        let why = "must be a number above 0 with at most 14 digits before and 12 after the point";
        refuse(format!("{place} {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On the command line and in the dashboard's form.
    #[test]
    fn a_fill_is_written_as_quantity_price_and_time() {
        let fill: Fill = " 0.06@146.123@2026-11-17T10:00:00Z".parse().unwrap();
        let execution = Execution {
            order_ref: "B-17".into(),
            fills: vec![fill],
            avg_price: None,
        };
        assert_eq!(Execution::parse(&execution.to_json()).unwrap(), execution);
        for bad in [
            "",
            "0.06",
            "0.06@146.123",
            "0.06@146.123@10:00",
            "x@1@2026-11-17T10:00:00Z",
            "0.06@146.123@2026-11-17T10:00:00Z@",
        ] {
            assert!(bad.parse::<Fill>().is_err(), "{bad}");
        }
    }
}
