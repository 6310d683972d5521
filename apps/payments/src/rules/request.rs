//! Payment requests over HTTP: every invalid field is reported, nothing is guessed.

use std::collections::BTreeMap;

use consign_kernel::{Error, Payload};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use uuid::Uuid;

use crate::{NewPayment, check::is_currency, options::PaymentsOptions};

/// Why a request is not a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Unreadable.
    Unreadable(String),
    /// These fields are invalid.
    Fields(Vec<WrongField>),
}

/// An invalid field and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WrongField {
    pub(crate) field: &'static str,
    pub(crate) message: String,
}

/// The request's JSON. The parser rejects repeated names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRequest {
    instruction_id: Option<Value>,
    tenant_id: Option<Value>,
    participant_id: Option<Value>,
    rail_type: Option<Value>,
    amount_minor: Option<Value>,
    currency_code: Option<Value>,
    beneficiary_ref_hash: Option<Value>,
    idempotency_key: Option<Value>,
    submitted_at_utc: Option<Value>,
    correlation_id: Option<Value>,
    kyc_hold: Option<Value>,
    /// Further fields for the rail.
    details: Option<Box<RawValue>>,
}

/// Parses a request.
pub(crate) fn read(body: &[u8], options: &PaymentsOptions) -> Result<NewPayment, Refusal> {
    let written: WireRequest = serde_json::from_slice(body).map_err(|error| {
        let what = if error.is_data() { "a payment" } else { "JSON" };
        Refusal::Unreadable(format!("the body is not {what}: {error}"))
    })?;
    let mut reader = Reader::default();
    let payment = reader.payment(written, options);
    if !reader.wrong.is_empty() {
        return Err(Refusal::Fields(reader.wrong));
    }
    // The remaining checks are the store's limits.
    match payment.validate() {
        Ok(()) => Ok(payment),
        Err(Error::InvalidInput { what, why }) => {
            Err(Refusal::Unreadable(format!("{what}: {why}")))
        }
        Err(error) => Err(Refusal::Unreadable(error.to_string())),
    }
}

/// Parses fields and collects their problems.
#[derive(Default)]
struct Reader {
    wrong: Vec<WrongField>,
}

impl Reader {
    fn payment(&mut self, written: WireRequest, options: &PaymentsOptions) -> NewPayment {
        let instruction = self.uuid("instruction_id", &written.instruction_id, true);
        let tenant_id = self.uuid("tenant_id", &written.tenant_id, options.tenant_required);
        let submitted_at = self.text("submitted_at_utc", &written.submitted_at_utc);
        if !submitted_at.is_empty() && !is_utc(&submitted_at) {
            self.refuse(
                "submitted_at_utc",
                "must be an RFC 3339 time in UTC, ending in Z",
            );
        }
        let currency = self.text("currency_code", &written.currency_code);
        if !currency.is_empty() && !is_currency(&currency) {
            self.refuse("currency_code", "must be three capital letters");
        }
        let rail_type = self.text("rail_type", &written.rail_type);
        if !rail_type.is_empty() && !options.rail_types.contains(&rail_type) {
            let types = options.rail_types.join(", ");
            self.refuse("rail_type", format!("must be one of {types}"));
        }
        let amount = self.amount(&written.amount_minor, options.amount_minor_max);
        let beneficiary = self.text("beneficiary_ref_hash", &written.beneficiary_ref_hash);
        let own = [
            ("amount_minor", Payload::from(Value::from(amount))),
            ("currency_code", Value::from(currency).into()),
            ("beneficiary_ref_hash", Value::from(beneficiary).into()),
            ("submitted_at_utc", Value::from(submitted_at).into()),
        ];
        NewPayment {
            instruction_id: instruction.map(|id| id.to_string()).unwrap_or_default(),
            idempotency_key: self.text("idempotency_key", &written.idempotency_key),
            participant_id: self.text("participant_id", &written.participant_id),
            rail_type,
            tenant_id,
            correlation_id: self.uuid("correlation_id", &written.correlation_id, false),
            payload: self.with_details(own, written.details.as_deref(), options),
            headers: Map::new(),
            kyc_hold: self.flag("kyc_hold", &written.kyc_hold),
        }
    }

    fn refuse(&mut self, field: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.wrong.push(WrongField { field, message });
    }

    fn text(&mut self, field: &'static str, value: &Option<Value>) -> String {
        match value {
            Some(Value::String(text)) if !text.trim().is_empty() => return text.clone(),
            None | Some(Value::Null) => self.refuse(field, "is missing"),
            Some(Value::String(_)) => self.refuse(field, "must not be blank"),
            Some(_) => self.refuse(field, "must be text"),
        }
        String::new()
    }

    fn uuid(&mut self, field: &'static str, value: &Option<Value>, needed: bool) -> Option<Uuid> {
        let text = match value {
            None | Some(Value::Null) if needed => {
                self.refuse(field, "is missing");
                return None;
            }
            None | Some(Value::Null) => return None,
            Some(value) => value.as_str().unwrap_or_default(),
        };
        // Other spellings of a UUID would be another instruction wherever text is compared.
        let id = Uuid::parse_str(text).ok().filter(|_| text.len() == 36);
        if id.is_none() {
            self.refuse(field, "must be a UUID");
        }
        id
    }

    fn amount(&mut self, value: &Option<Value>, most: u64) -> u64 {
        match value {
            Some(Value::Number(number)) => match number.as_u64() {
                Some(amount) if (1..=most).contains(&amount) => return amount,
                _ => {
                    let why = format!("must be a whole number from 1 to {most}");
                    self.refuse("amount_minor", why);
                }
            },
            None | Some(Value::Null) => self.refuse("amount_minor", "is missing"),
            Some(_) => self.refuse("amount_minor", "must be a number, not text"),
        }
        0
    }

    fn flag(&mut self, field: &'static str, value: &Option<Value>) -> bool {
        match value {
            None | Some(Value::Null) => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.refuse(field, "must be true or false");
                false
            }
        }
    }

    /// The rail gets one object; `details` must not override the protocol's fields.
    fn with_details(
        &mut self,
        own: [(&str, Payload); 4],
        details: Option<&RawValue>,
        options: &PaymentsOptions,
    ) -> Payload {
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let mut payload = BTreeMap::from(own);
        for (name, value) in self.details(details, options).unwrap_or_default() {
            if payload.contains_key(&name) || DISPATCHED_NAMES.contains(&name.as_str()) {
                self.refuse("details", format!("must not contain {name}"));
            } else {
                payload.insert(name, value);
            }
        }
        Payload::deferred(&payload)
    }

    /// As written, number for number.
    fn details(
        &mut self,
        details: Option<&RawValue>,
        options: &PaymentsOptions,
    ) -> Option<BTreeMap<String, Payload>> {
        let bytes_max = options.request_bytes_max;
        let details = match Payload::parse_within(details?.get(), bytes_max) {
            Ok(details) if details.as_str() == "null" => return None,
            Ok(details) => details,
            Err(error) => {
                self.refuse("details", error.to_string());
                return None;
            }
        };
        let members = details.members();
        if members.is_none() {
            self.refuse("details", "must be an object");
        }
        members
    }
}

/// Other names under which a relayer finds the amount, the currency and the destination.
const DISPATCHED_NAMES: [&str; 3] = ["amount", "currency", "destination"];

fn is_utc(text: &str) -> bool {
    text.ends_with('Z') && text.parse::<Timestamp>().is_ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn good() -> Value {
        json!({
            "instruction_id": "0190f3a2-7b1c-7000-8000-000000000001",
            "tenant_id": "0190f3a2-7b1c-7000-8000-00000000000a",
            "participant_id": "bank-a",
            "rail_type": "PAYMENT",
            "amount_minor": 1250,
            "currency_code": "ZMW",
            "beneficiary_ref_hash": "9f2c",
            "idempotency_key": "k-1",
            "submitted_at_utc": "2026-11-16T03:00:00Z",
        })
    }

    fn wrong_fields(body: &Value) -> Vec<&'static str> {
        match read(body.to_string().as_bytes(), &PaymentsOptions::default()) {
            Ok(_) => Vec::new(),
            Err(Refusal::Fields(wrong)) => wrong.iter().map(|wrong| wrong.field).collect(),
            Err(Refusal::Unreadable(why)) => panic!("{why}"),
        }
    }

    /// What the ingress wants, field by field.
    #[test]
    fn every_wrong_field_is_named() {
        assert!(wrong_fields(&good()).is_empty());
        let table = [
            ("instruction_id", json!("ins-1")),
            ("instruction_id", json!("0190f3a27b1c70008000000000000001")),
            ("tenant_id", json!(7)),
            ("tenant_id", json!(null)),
            ("participant_id", json!("  ")),
            ("rail_type", json!("CARRIER_PIGEON")),
            ("rail_type", json!("payment")),
            ("amount_minor", json!(0)),
            ("amount_minor", json!(-1)),
            ("amount_minor", json!(1.5)),
            ("amount_minor", json!("1250")),
            ("amount_minor", json!(1_000_000_000_001_u64)),
            ("currency_code", json!("zmw")),
            ("beneficiary_ref_hash", json!("")),
            ("idempotency_key", json!(null)),
            ("submitted_at_utc", json!("2026-11-16")),
            ("submitted_at_utc", json!("2026-11-16T03:00:00+02:00")),
            ("correlation_id", json!("x")),
            ("kyc_hold", json!("yes")),
            ("details", json!([])),
            ("details", json!({"amount_minor": 1})),
            ("details", json!({"destination": "elsewhere"})),
        ];
        for (field, value) in table {
            let mut body = good();
            body[field] = value.clone();
            assert_eq!(wrong_fields(&body), [field], "{field} = {value}");
        }
        let mut many = good();
        many["amount_minor"] = json!(0);
        many["currency_code"] = json!("x");
        assert_eq!(wrong_fields(&many), ["currency_code", "amount_minor"]);
        let mut largest = good();
        largest["amount_minor"] = json!(1_000_000_000_000_u64);
        assert!(wrong_fields(&largest).is_empty());
    }

    /// The last of two equal names would be paid and the first ignored.
    #[test]
    fn rejects_a_repeated_name_with_its_path() {
        for (details, place) in [
            (r#"{"a":1,"a":2}"#, "a: "),
            (r#"{"b":[{"c":1},{"c":1,"c":1}]}"#, "b[1].c: "),
            (r#"{"d":{"e":{"f":null,"\u0066":null}}}"#, "d.e.f: "),
        ] {
            let body = good().to_string();
            let body = body.replacen('{', &format!(r#"{{"details":{details},"#), 1);
            let refusal = read(body.as_bytes(), &PaymentsOptions::default());
            let Err(Refusal::Fields(wrong)) = refusal else {
                panic!("{details}: {refusal:?}")
            };
            assert_eq!(wrong[0].field, "details");
            assert!(wrong[0].message.starts_with(place), "{}", wrong[0].message);
        }
    }

    #[test]
    fn unreadable_requests_have_their_own_code() {
        let twice = good().to_string().replacen('{', r#"{"amount_minor":1,"#, 1);
        let long = good().to_string().replace("bank-a", &"x".repeat(300));
        for body in ["", "[]", "{", r#"{"unknown": 1}"#, &twice, &long] {
            let refusal = read(body.as_bytes(), &PaymentsOptions::default());
            assert!(matches!(refusal, Err(Refusal::Unreadable(_))), "{body}");
        }
    }

    #[test]
    fn details_travel_with_the_payment() {
        let mut body = good();
        body["details"] = json!({"scenario": "SIMULATE_SUCCESS"});
        let payment = read(body.to_string().as_bytes(), &PaymentsOptions::default()).unwrap();
        assert_eq!(
            payment.payload.as_str(),
            "{\"amount_minor\":1250,\"beneficiary_ref_hash\":\"9f2c\",\"currency_code\":\"ZMW\",\
             \"scenario\":\"SIMULATE_SUCCESS\",\"submitted_at_utc\":\"2026-11-16T03:00:00Z\"}"
        );
    }

    #[test]
    fn details_keep_every_digit_and_hold_each_name_once() {
        let read_with = |details: &str| {
            let body = good().to_string();
            let body = body.replacen('{', &format!(r#"{{"details":{details},"#), 1);
            read(body.as_bytes(), &PaymentsOptions::default())
        };
        let payment = read_with(r#"{"rate":0.12345678901234567890,"n":12345678901234567890123}"#);
        let payload = payment.unwrap().payload;
        let members = payload.members().unwrap();
        assert_eq!(members["rate"].as_str(), "0.12345678901234567890");
        assert_eq!(members["n"].as_str(), "12345678901234567890123");
        for (details, place) in [
            (r#"{"a":1,"a":1}"#, "a: "),
            (r#"{"x":[{"a":1,"a":2}]}"#, "x[0].a: "),
        ] {
            let Err(Refusal::Fields(wrong)) = read_with(details) else {
                panic!("{details} was accepted");
            };
            assert_eq!(wrong[0].field, "details");
            assert!(wrong[0].message.starts_with(place), "{}", wrong[0].message);
        }
    }
}
