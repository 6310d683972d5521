//! Parses a request field by field.

use super::{
    InvalidRequest, OrderRequest, Problem, RiskConstraints, Rules, Side, TimeInForce,
    fields::{Fields, PROBLEMS_MAX},
};
use crate::{
    Amount, Instrument, OrderKey, digest,
    json::{self, Json},
    rounding,
    rules::instruments::is_name,
};

const FIELDS: &str = "order_id, instrument, side, qty, price, time_in_force, tags, \
                      risk_constraints, trace_id, idempotency_key, requested_at";
const RISK_FIELDS: &str = "max_dd, max_consecutive_loss, max_spread";
const NAME: &str = "3 to 20 of A-Z, 0-9, `.`, `_` and `-`";
const SIDES: &str = "BUY or SELL";
const KEY: &str = "8 to 64 characters, the same as in the header Idempotency-Key";

const TAGS_MAX: usize = 8;
const TAG_CHARS_MAX: usize = 32;
const LINE_CHARS_MAX: usize = 128;

pub(super) fn read(body: &[u8], rules: Option<&Rules>) -> Result<OrderRequest, InvalidRequest> {
    let document = json::parse(body)
        .map_err(|error| of_body(format!("is invalid: {error}"), "one JSON object in UTF-8"))?;
    let Json::Object(members) = &document.root else {
        return Err(of_body("is not an object".into(), "one JSON object"));
    };
    let mut problems = Vec::new();
    let checked = fields(members, rules, &mut problems);
    if problems.len() >= PROBLEMS_MAX {
        problems.extend(of_body("has more problems than are listed".into(), FIELDS).problems);
    }
    problems.extend(document.repeats.into_iter().map(|field| Problem {
        field,
        problem: "occurs more than once".to_owned(),
        accepted: "each field once".to_owned(),
    }));
    match checked {
        Some(request) if problems.is_empty() => Ok(OrderRequest {
            digest: digest::request_digest(&document.root),
            ..request
        }),
        _ => {
            let key = document.root.get("idempotency_key");
            Err(InvalidRequest {
                idempotency_key: key.and_then(Json::as_text).map(str::to_owned),
                problems,
            })
        }
    }
}

fn of_body(problem: String, accepted: &str) -> InvalidRequest {
    InvalidRequest {
        problems: vec![Problem {
            field: "body".to_owned(),
            problem,
            accepted: accepted.to_owned(),
        }],
        idempotency_key: None,
    }
}

/// The request without its digest; `None` where a field is invalid or a required one is missing.
fn fields(
    members: &[(String, Json)],
    rules: Option<&Rules>,
    problems: &mut Vec<Problem>,
) -> Option<OrderRequest> {
    let mut fields = Fields::new(members, "", problems);
    let order_id = line(&mut fields, "order_id", 1);
    let instrument = instrument(&mut fields, rules);
    let grid = instrument.and_then(|(_, grid)| grid);
    let side = side(&mut fields);
    let qty = qty(&mut fields, grid);
    let price = price(&mut fields, grid.zip(side));
    let time_in_force = time_in_force(&mut fields);
    let tags = tags(&mut fields);
    let risk_members = risk_members(&mut fields);
    let trace_id = line(&mut fields, "trace_id", 0);
    let idempotency_key = idempotency_key(&mut fields);
    let requested_at = match fields.optional_member("requested_at") {
        Some(value) => fields.instant("requested_at", value).map(Some),
        None => Some(None),
    };
    fields.finish(FIELDS);
    let risk_constraints = risk_members?.map(|members| risk(members, problems));
    Some(OrderRequest {
        instrument: instrument?.0.to_owned(),
        side: side?,
        qty: qty?,
        price: price?,
        time_in_force: time_in_force?,
        tags: tags?,
        risk_constraints,
        trace_id: trace_id?,
        idempotency_key: idempotency_key?,
        order_id: order_id?,
        requested_at: requested_at?,
        digest: String::new(),
    })
}

/// The instrument's name and grid; no grid without rules.
fn instrument<'a, 'r>(
    fields: &mut Fields<'a, '_>,
    rules: Option<&'r Rules>,
) -> Option<(&'a str, Option<&'r Instrument>)> {
    let value = fields.demand("instrument", NAME)?;
    let name = fields.text("instrument", value, NAME, is_name)?;
    let Some(rules) = rules else {
        return Some((name, None));
    };
    let grid = rules.instruments.get(name);
    if grid.is_none() {
        let names: Vec<&str> = rules.instruments.names().collect();
        fields.complain(
            "instrument",
            "is not a tradable instrument",
            &names.join(", "),
        );
        return None;
    }
    Some((name, grid))
}

fn side(fields: &mut Fields<'_, '_>) -> Option<Side> {
    let value = fields.demand("side", SIDES)?;
    let is_side = |word: &str| Side::from_word(word).is_some();
    Side::from_word(fields.text("side", value, SIDES, is_side)?)
}

fn qty(fields: &mut Fields<'_, '_>, grid: Option<&Instrument>) -> Option<Amount> {
    let above_zero = "a number above 0";
    let value = fields.demand("qty", above_zero)?;
    let qty = fields.amount("qty", value, above_zero)?;
    if !qty.is_positive() {
        fields.complain("qty", "is not above 0", above_zero);
        return None;
    }
    let Some(grid) = grid else { return Some(qty) };
    let rounded = rounding::floor_qty(qty, grid.qty_step);
    if !rounded.is_positive() || rounded < grid.qty_min {
        let accepted = format!("at least {} in steps of {}", grid.qty_min, grid.qty_step);
        fields.complain("qty", "is below the minimum quantity", &accepted);
        return None;
    }
    Some(qty)
}

/// `Some(None)`: a market order.
fn price(fields: &mut Fields<'_, '_>, on: Option<(&Instrument, Side)>) -> Option<Option<Amount>> {
    let accepted = "a number above 0, or null for a market order";
    let price = match fields.optional_member("price") {
        None => return Some(None),
        Some(value) => fields.amount("price", value, accepted)?,
    };
    if !price.is_positive() {
        fields.complain("price", "is not above 0", accepted);
        return None;
    }
    if let Some((grid, side)) = on
        && !rounding::round_price(price, grid.price_tick, side).is_positive()
    {
        let accepted = format!("at least {}, the instrument's tick", grid.price_tick);
        fields.complain("price", "is below one tick", &accepted);
        return None;
    }
    Some(Some(price))
}

fn time_in_force(fields: &mut Fields<'_, '_>) -> Option<TimeInForce> {
    let Some(value) = fields.optional_member("time_in_force") else {
        return Some(TimeInForce::Ioc);
    };
    let is_one = |word: &str| TimeInForce::from_word(word).is_some();
    let word = fields.text("time_in_force", value, "IOC, FOK or GTC", is_one)?;
    TimeInForce::from_word(word)
}

fn tags(fields: &mut Fields<'_, '_>) -> Option<Vec<String>> {
    let accepted = format!("at most {TAGS_MAX} texts of at most {TAG_CHARS_MAX} characters");
    let items = match fields.optional_member("tags") {
        None => return Some(Vec::new()),
        Some(Json::List(items)) => items,
        Some(_) => {
            fields.complain("tags", "is not a list", &accepted);
            return None;
        }
    };
    if items.len() > TAGS_MAX {
        fields.complain("tags", "has too many items", &accepted);
    }
    let mut tags = Vec::with_capacity(TAGS_MAX);
    for (index, item) in items.iter().take(TAGS_MAX).enumerate() {
        let is_short = |tag: &str| tag.chars().count() <= TAG_CHARS_MAX;
        let tag = fields.text(&format!("tags.{index}"), item, &accepted, is_short);
        tags.extend(tag.map(str::to_owned));
    }
    (tags.len() == items.len()).then_some(tags)
}

/// Text for logs and headers, where a line end would be a forgery. `Some(None)`: omitted.
fn line(fields: &mut Fields<'_, '_>, name: &str, chars_min: usize) -> Option<Option<String>> {
    let Some(value) = fields.optional_member(name) else {
        return Some(None);
    };
    let accepted =
        format!("{chars_min} to {LINE_CHARS_MAX} characters, none of them a control character");
    let text = fields.text(name, value, &accepted, |text| {
        let is_line = !text.chars().any(char::is_control);
        is_line && (chars_min..=LINE_CHARS_MAX).contains(&text.chars().count())
    })?;
    Some(Some(text.to_owned()))
}

fn idempotency_key(fields: &mut Fields<'_, '_>) -> Option<OrderKey> {
    let value = fields.demand("idempotency_key", KEY)?;
    let is_key = |text: &str| text.parse::<OrderKey>().is_ok();
    let text = fields.text("idempotency_key", value, KEY, is_key)?;
    text.parse().ok()
}

/// `Some(None)`: omitted.
fn risk_members<'a>(fields: &mut Fields<'a, '_>) -> Option<Option<&'a [(String, Json)]>> {
    match fields.optional_member("risk_constraints") {
        None => Some(None),
        Some(Json::Object(members)) => Some(Some(members)),
        Some(_) => {
            let accepted = format!("an object with any of {RISK_FIELDS}");
            fields.complain("risk_constraints", "is not an object", &accepted);
            None
        }
    }
}

/// Invalid members are `None` in the result and listed in `problems`.
fn risk(members: &[(String, Json)], problems: &mut Vec<Problem>) -> RiskConstraints {
    let mut fields = Fields::new(members, "risk_constraints.", problems);
    let max_dd = not_negative(&mut fields, "max_dd");
    let losses = not_negative(&mut fields, "max_consecutive_loss");
    let max_consecutive_loss = losses.and_then(|losses| {
        let whole = losses.to_string().parse::<u32>().ok();
        if whole.is_none() {
            let accepted = "a whole number, 0 or more";
            fields.complain("max_consecutive_loss", "is not a whole number", accepted);
        }
        whole
    });
    let max_spread = not_negative(&mut fields, "max_spread");
    fields.finish(RISK_FIELDS);
    RiskConstraints {
        max_dd,
        max_consecutive_loss,
        max_spread,
    }
}

fn not_negative(fields: &mut Fields<'_, '_>, name: &str) -> Option<Amount> {
    let accepted = "a number, 0 or more";
    let value = fields.optional_member(name)?;
    let amount = fields.amount(name, value, accepted)?;
    if amount < Amount::ZERO {
        fields.complain(name, "is below 0", accepted);
        return None;
    }
    Some(amount)
}
