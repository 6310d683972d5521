//! Validation before a rail is called: an invalid payment fails at once, without a call.

use std::collections::BTreeMap;

use consign_kernel::Payload;
use consign_worker::Delivery;

use crate::{OutboxId, rail::Dispatch, stored::StoredPayment};

/// Why a payment is not dispatched: a code for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PaymentFault {
    pub(crate) code: &'static str,
    pub(crate) why: String,
}

/// The caller's object.
type Members = BTreeMap<String, Payload>;

fn unfit(code: &'static str, why: impl Into<String>) -> PaymentFault {
    let why = why.into();
    PaymentFault { code, why }
}

/// Builds the dispatch from a message, which may contain anything.
pub(crate) fn dispatch(delivery: &Delivery) -> Result<Dispatch, PaymentFault> {
    let stored = StoredPayment::read(&delivery.message.payload);
    let stored = stored.map_err(|error| {
        let why = format!("invalid payment message: {error}");
        unfit("INVALID_PAYLOAD", why)
    })?;
    let Some(payload) = stored.payload.members() else {
        return Err(unfit("INVALID_PAYLOAD", "payload is not an object"));
    };
    let amount_minor = amount(&payload)?;
    let currency = currency(&payload)?;
    let destination = destination(&payload)?;
    Ok(Dispatch {
        reference: stored.outbox_id,
        amount_minor,
        currency,
        destination,
        instruction_id: stored.instruction_id,
        participant_id: stored.participant_id,
        sequence_id: stored.sequence_id,
        rail_type: stored.rail_type,
        tenant_id: stored.tenant_id,
        payload: stored.payload,
        attempt_no: delivery.attempt_no,
        fence: delivery.fence,
    })
}

/// Reference and rail type of a payment, even if it is invalid.
pub(crate) fn name(delivery: &Delivery) -> Option<(OutboxId, String)> {
    let payload = &delivery.message.payload;
    if let Ok(stored) = StoredPayment::read(payload) {
        return Some((stored.outbox_id, stored.rail_type));
    }
    let rail_type = payload.members()?.get("rail_type")?.text()?;
    let outbox_id = delivery.message.key.as_deref()?.parse().ok()?;
    Some((outbox_id, rail_type))
}

/// In minor units: `amount` has no defined unit.
fn amount(payload: &Members) -> Result<u64, PaymentFault> {
    let why = match payload.get("amount_minor").map(Payload::as_str) {
        Some(number) if number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
            match number.parse() {
                Ok(amount) if amount > 0 && i64::try_from(amount).is_ok() => return Ok(amount),
                _ => "amount_minor is not a positive whole number",
            }
        }
        Some(_) => "amount_minor is not a number",
        None if payload.contains_key("amount") => {
            "amount has no unit; send amount_minor, a whole number of minor units"
        }
        None => "amount_minor is missing",
    };
    Err(unfit("INVALID_AMOUNT", why))
}

fn currency(payload: &Members) -> Result<String, PaymentFault> {
    let code = text(payload, ["currency_code", "currency"]);
    if is_currency(&code) {
        return Ok(code);
    }
    let why = "currency_code is not three capital letters";
    Err(unfit("INVALID_CURRENCY", why))
}

pub(crate) fn is_currency(code: &str) -> bool {
    code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn destination(payload: &Members) -> Result<String, PaymentFault> {
    let destination = text(payload, ["destination", "beneficiary_ref_hash"]);
    if destination.trim().is_empty() {
        let why = "destination (or beneficiary_ref_hash) is missing or blank";
        return Err(unfit("INVALID_DESTINATION", why));
    }
    Ok(destination)
}

/// The first of these members, as text.
fn text(payload: &Members, names: [&str; 2]) -> String {
    let found = names.into_iter().find_map(|name| payload.get(name));
    found.and_then(Payload::text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::relayer::tests::delivery;

    /// The four checks and their codes.
    #[test]
    fn an_invalid_payment_fails_with_its_code() {
        let good = json!({"amount_minor": 5, "currency_code": "ZMW", "destination": "a"});
        let with = |name: &str, value: Value| {
            let mut payload = good.clone();
            payload[name] = value;
            payload
        };
        let without = |name: &str| {
            let mut payload = good.clone();
            payload.as_object_mut().unwrap().remove(name);
            payload
        };
        let legacy = json!({"amount": 5, "currency": "ZMW", "destination": "a"});
        let other_names =
            json!({"amount_minor": 5, "currency": "ZMW", "beneficiary_ref_hash": "ab12"});
        let table = [
            (good.clone(), None),
            (other_names, None),
            (with("amount_minor", json!(i64::MAX)), None),
            (json!([1]), Some("INVALID_PAYLOAD")),
            (json!("x"), Some("INVALID_PAYLOAD")),
            (with("amount_minor", json!(0)), Some("INVALID_AMOUNT")),
            (with("amount_minor", json!(-5)), Some("INVALID_AMOUNT")),
            (with("amount_minor", json!(5.5)), Some("INVALID_AMOUNT")),
            (with("amount_minor", json!("5")), Some("INVALID_AMOUNT")),
            (
                with("amount_minor", json!(u64::MAX)),
                Some("INVALID_AMOUNT"),
            ),
            (with("amount_minor", json!(1e30)), Some("INVALID_AMOUNT")),
            (without("amount_minor"), Some("INVALID_AMOUNT")),
            (legacy, Some("INVALID_AMOUNT")),
            (
                with("currency_code", json!("zmw")),
                Some("INVALID_CURRENCY"),
            ),
            (
                with("currency_code", json!("ZMWK")),
                Some("INVALID_CURRENCY"),
            ),
            (with("currency_code", json!("ÄÖ")), Some("INVALID_CURRENCY")),
            (without("currency_code"), Some("INVALID_CURRENCY")),
            (
                with("destination", json!("  ")),
                Some("INVALID_DESTINATION"),
            ),
            (with("destination", json!(7)), Some("INVALID_DESTINATION")),
            (without("destination"), Some("INVALID_DESTINATION")),
        ];
        for (payload, expected) in table {
            let code = dispatch(&delivery(payload.clone()))
                .err()
                .map(|unfit| unfit.code);
            assert_eq!(code, expected, "{payload}");
        }
    }
}
