//! Orders as the broker reads them, and the answers it gives.

use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::step::{STEP_TAG, Step};

/// The price of everything that names none.
const PRICE: &str = "146.125";

/// An order. Numbers stay text: what is executed is what was ordered, digit by digit.
#[derive(Debug, Deserialize)]
pub(super) struct Order<'b> {
    order_id: Option<String>,
    instrument: String,
    side: String,
    #[serde(borrow)]
    qty: &'b RawValue,
    #[serde(borrow, default)]
    price: Option<&'b RawValue>,
    requested_at: Option<String>,
    trace_id: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
}

impl<'b> Order<'b> {
    pub(super) fn parse(body: &'b str) -> Result<Self, String> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }

    /// What the order's tags say about its nth send, from 0.
    pub(super) fn step(&self, send: usize) -> Result<Option<Step>, String> {
        let steps = self
            .tags
            .iter()
            .filter_map(|tag| tag.strip_prefix(STEP_TAG));
        steps.map(str::parse).nth(send).transpose()
    }

    /// All of it.
    pub(super) fn qty(&self) -> &str {
        self.qty.get()
    }

    /// The answer after this much was executed.
    pub(super) fn executed(&self, qty: &str, number: usize) -> String {
        let now = now();
        let price = match self.price.map(RawValue::get) {
            None | Some("null") => PRICE,
            Some(price) => price,
        };
        let fills = match qty {
            "0" => String::new(),
            qty => format!(r#"{{"px":{price},"qty":{qty},"ts":"{now}"}}"#),
        };
        let average = if qty == "0" { "null" } else { price };
        self.answer(
            "ok",
            &format!(
                r#""fills":[{fills}],"executed_qty":{qty},"avg_price":{average},"reason_code":null,"broker":{{"name":"honest","order_ref":"h-{number}"}}"#
            ),
        )
    }

    /// The answer that refuses it, in words that not every database can store.
    pub(super) fn rejected(&self) -> String {
        self.answer(
            "error",
            r#""fills":[],"executed_qty":0,"avg_price":null,"reason_code":"BROKER_REJECTED","message":"not \u0000 today","broker":{"name":"honest","order_ref":null}"#,
        )
    }

    fn answer(&self, status: &str, rest: &str) -> String {
        let now = now();
        let requested_at = self.requested_at.as_deref().unwrap_or(&now);
        let head = json!({
            "status": status,
            "order_id": self.order_id,
            "instrument": self.instrument,
            "side": self.side,
            "requested_at": requested_at,
            "completed_at": now,
            "trace_id": self.trace_id,
            "latency_ms": {"queue": 0, "broker_rtt": 0, "total": 0},
        });
        let head = head.to_string();
        let open = head.strip_suffix('}').expect("an object ends with a brace");
        format!("{open},{rest}}}")
    }
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}
