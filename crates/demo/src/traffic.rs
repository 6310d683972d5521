//! What the example shop has to send: a few messages a second, the same ones for the same seed.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{caller::Call, chance::Chance, receiver::HEADER};

/// Most that is put where it stays: into the queue of a partner who is gone, and into a paused one.
const STAYS_MAX: u64 = 60;

const CUSTOMERS: &[&str] = &[
    "amber", "basil", "cedar", "dahlia", "elm", "fern", "ginkgo", "hazel",
];
const SUBJECTS: &[&str] = &[
    "Your order is on its way",
    "Your invoice",
    "How did you like it?",
    "Your basket is waiting",
];
const EVENTS: &[&str] = &["order.created", "order.paid", "parcel.sent", "stock.low"];
const INSTRUMENTS: &[&str] = &["USDJPY", "EURJPY", "EURUSD", "GBPUSD"];
const DAYS: &[&str] = &["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"];

/// What becomes of letters and of webhooks, by weight.
const LETTER_FATES: &[(u64, &str)] = &[(70, ""), (23, "slow=600"), (5, "fail=1"), (2, "refuse")];
const WEBHOOK_FATES: &[(u64, &str)] = &[
    (60, ""),
    (19, "slow=700"),
    (9, "slow=2500"),
    (6, "fail=1"),
    (3, "fail=2"),
    (2, "fail"),
    (1, "refuse"),
];
/// The behaviour of the paper broker.
const ORDER_TAGS: &[(u64, &str)] = &[
    (60, ""),
    (14, "paper:down=1"),
    (20, "paper:slow=2000"),
    (2, "paper:rejected"),
    (4, "paper:partial=40"),
];
/// The behaviour of the simulated rail.
const SCENARIOS: &[(u64, &str)] = &[
    (65, "SIMULATE_SUCCESS"),
    (12, "SIMULATE_TIMEOUT"),
    (10, "SIMULATE_TRANSIENT_FAILURE"),
    (6, "SIMULATE_LOST_REPLY"),
    (4, "SIMULATE_BUSY"),
    (2, "SIMULATE_PERMANENT_FAILURE"),
    (1, "SIMULATE_CANNOT_TELL"),
];

#[derive(Clone, Copy, Debug)]
enum Kind {
    Letter,
    Webhook,
    Report,
    Newsletter,
    Partner,
    Order,
    Payment,
    Memory,
    Question,
}

const KINDS: &[(u64, Kind)] = &[
    (36, Kind::Letter),
    (26, Kind::Webhook),
    (7, Kind::Report),
    (2, Kind::Newsletter),
    (3, Kind::Partner),
    (8, Kind::Order),
    (8, Kind::Payment),
    (8, Kind::Memory),
    (2, Kind::Question),
];

/// What comes next.
#[derive(Debug)]
pub(crate) struct Traffic {
    chance: Chance,
    seed: u64,
    /// How much there has been.
    count: u64,
    /// What has been put where it stays.
    stays: u64,
}

impl Traffic {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed),
            seed,
            count: 0,
            stays: 0,
        }
    }

    /// How many calls there have been.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The next call.
    pub(crate) fn next(&mut self) -> Call {
        match self.chance.weigh(KINDS) {
            Kind::Letter => self.letter_by_chance(),
            Kind::Webhook => {
                let fate = self.chance.weigh(WEBHOOK_FATES);
                self.webhook(fate)
            }
            Kind::Report => self.report(),
            Kind::Newsletter | Kind::Partner if self.stays >= STAYS_MAX => self.letter_by_chance(),
            Kind::Newsletter => self.newsletter(),
            Kind::Partner => self.partner(),
            Kind::Order => {
                let tag = self.chance.weigh(ORDER_TAGS);
                self.order(tag)
            }
            Kind::Payment => {
                let scenario = self.chance.weigh(SCENARIOS);
                self.payment(scenario, false)
            }
            Kind::Memory => self.memory(),
            Kind::Question => self.question(),
        }
    }

    fn letter_by_chance(&mut self) -> Call {
        let fate = self.chance.weigh(LETTER_FATES);
        self.letter(fate)
    }

    pub(crate) fn letter(&mut self, fate: &str) -> Call {
        let n = self.count();
        let (to, subject) = (*self.chance.pick(CUSTOMERS), *self.chance.pick(SUBJECTS));
        let mut body = self.message("letter", json!({"to": to, "subject": subject}), fate);
        // Every customer's letters come in order.
        body["group"] = json!(to);
        body["headers"]["correlation_id"] = json!(format!("visit-{}", n / 5));
        Call::new("/v1/queues/mail/messages", body)
    }

    pub(crate) fn webhook(&mut self, fate: &str) -> Call {
        let event = *self.chance.pick(EVENTS);
        let order = self.count / 3;
        let body = self.message("event", json!({"event": event, "order": order}), fate);
        Call::new("/v1/queues/webhooks/messages", body)
    }

    pub(crate) fn report(&mut self) -> Call {
        let month = 1 + self.chance.below(12);
        let body = self.message("report", json!({"month": month, "copies": 2}), "");
        Call::new("/v1/queues/reports/messages", body)
    }

    pub(crate) fn newsletter(&mut self) -> Call {
        self.stays += 1;
        let to = *self.chance.pick(CUSTOMERS);
        let body = self.message("news", json!({"to": to, "issue": 12}), "");
        Call::new("/v1/queues/newsletter/messages", body)
    }

    pub(crate) fn partner(&mut self) -> Call {
        self.stays += 1;
        let stock = self.chance.below(500);
        let body = self.message("stock", json!({"article": "lamp", "stock": stock}), "");
        Call::new("/v1/queues/partner/messages", body)
    }

    pub(crate) fn order(&mut self, tag: &str) -> Call {
        let n = self.counted();
        let instrument = *self.chance.pick(INSTRUMENTS);
        let side = *self.chance.pick(&["BUY", "SELL"]);
        let cents = 1 + self.chance.below(50);
        let key = format!("order-{n:04}");
        let tags: Vec<&str> = Some(tag)
            .filter(|tag| !tag.is_empty())
            .into_iter()
            .collect();
        let qty: Value = serde_json::from_str(&format!("0.{cents:02}")).unwrap_or(json!(1));
        let body = json!({
            "instrument": instrument, "side": side, "qty": qty, "tags": tags,
            "idempotency_key": key,
        });
        Call {
            key: Some(key),
            ..Call::new("/do/order", body)
        }
    }

    pub(crate) fn payment(&mut self, scenario: &str, kyc_hold: bool) -> Call {
        let n = self.counted();
        let bank = *self.chance.pick(&["bank-a", "bank-b", "bank-c"]);
        let amount = 100 + self.chance.below(90_000);
        let seed = self.seed & 0xfff;
        let body = json!({
            "instruction_id": format!("0190f3a2-7b1c-7{seed:03x}-8000-{n:012x}"),
            "idempotency_key": format!("invoice-{n}"),
            "tenant_id": "0190f3a2-7b1c-7000-8000-00000000000a",
            "participant_id": bank, "rail_type": "PAYMENT", "amount_minor": amount,
            "currency_code": "ZMW", "beneficiary_ref_hash": format!("{:04x}", n % 0xffff),
            "submitted_at_utc": Timestamp::now().to_string(), "kyc_hold": kyc_hold,
            "details": {"scenario": scenario},
        });
        Call::new("/v1/payments", body)
    }

    pub(crate) fn memory(&mut self) -> Call {
        let day = *self.chance.pick(DAYS);
        let text = format!("Deploy {} of the shop went out on a {day}.", self.count);
        self.memory_of(&text)
    }

    pub(crate) fn memory_of(&mut self, text: &str) -> Call {
        self.counted();
        let arguments = json!({"payload_md": text, "kind": "FACT"});
        Call::new(
            "/mcp",
            json!({"tool": "memory_store", "arguments": arguments}),
        )
    }

    fn question(&mut self) -> Call {
        self.counted();
        let day = *self.chance.pick(DAYS);
        let arguments = json!({"query": format!("deploy {day}"), "top_k": 3});
        Call::new(
            "/mcp",
            json!({"tool": "memory_query", "arguments": arguments}),
        )
    }

    fn counted(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// A message under a key of its own, with what the receiver is to do to it.
    fn message(&mut self, what: &str, payload: Value, fate: &str) -> Value {
        let n = self.counted();
        let mut headers = json!({"source": "shop"});
        if !fate.is_empty() {
            headers[HEADER] = json!(fate);
        }
        json!({"key": format!("{what}-{n}"), "payload": payload, "headers": headers})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Payments say when they were made.
    fn untimed(mut call: Call) -> Call {
        if let Some(body) = call.body.as_object_mut() {
            body.remove("submitted_at_utc");
        }
        call
    }

    fn first(seed: u64, count: usize) -> Vec<Call> {
        let mut traffic = Traffic::new(seed);
        (0..count).map(|_| untimed(traffic.next())).collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_traffic_and_another_one_does_not() {
        assert_eq!(first(7, 500), first(7, 500));
        // Names apart, which have the seed in them.
        let paths = |seed| -> Vec<String> {
            let calls = first(seed, 500).into_iter();
            calls.map(|call| call.path).collect()
        };
        assert_ne!(paths(7), paths(8));
    }

    #[test]
    fn every_kind_comes_up_and_what_stays_is_bounded() {
        let calls = first(0, 8_000);
        let to = |path: &str| calls.iter().filter(|call| call.path == path).count() as u64;
        for path in [
            "/v1/queues/mail/messages",
            "/v1/queues/webhooks/messages",
            "/v1/queues/reports/messages",
            "/do/order",
            "/v1/payments",
            "/mcp",
        ] {
            assert!(to(path) > 100, "{path}: {}", to(path));
        }
        let stays = to("/v1/queues/partner/messages") + to("/v1/queues/newsletter/messages");
        assert_eq!(stays, STAYS_MAX);
    }
}
