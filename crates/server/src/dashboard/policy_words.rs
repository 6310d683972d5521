//! A queue's policy in words.

use consign_kernel::{OnDead, OnUncertain, QueuePolicy, RetrySchedule};
use jiff::SignedDuration;

use super::words::{bytes, count, many, span};

/// A rule: what it is about, the field of the policy, and its value in words.
pub(super) struct Rule {
    pub(super) about: &'static str,
    pub(super) field: &'static str,
    pub(super) words: String,
}

/// Every rule of a policy.
pub(super) fn rules(policy: &QueuePolicy) -> Vec<Rule> {
    let rule = |about, field, words| Rule {
        about,
        field,
        words,
    };
    let mut rules = vec![
        rule("Tries", "attempts_max", tries(policy)),
        rule("Then it waits", "retry", delays(&policy.retry)),
        rule("Uncertain outcomes", "on_uncertain", uncertain(policy)),
        rule("Order", "ordered", order(policy)),
        rule("A lease lasts", "lease_ttl_ms", lease(policy)),
        rule(
            "A delivery takes at most",
            "timeout_ms",
            time(policy.timeout_ms),
        ),
        rule("At once", "concurrency", at_once(policy)),
        rule("A second", "rate_per_second", a_second(policy)),
        rule("Payloads", "payload_max_bytes", payloads(policy)),
        rule("History", "keep_ms", history(policy)),
        rule("Alerts", "alert_queue", alerts(policy)),
    ];
    if policy.record_begin || policy.presume_begun {
        let words = if policy.presume_begun {
            "presumed as soon as a message is claimed in SQL"
        } else {
            "recorded before each call of the sink"
        };
        rules.push(rule(
            "Start of a delivery",
            "record_begin",
            words.to_owned(),
        ));
    }
    if !policy.notify {
        let words = "workers are not woken; they look from time to time".to_owned();
        rules.push(rule("Wake-ups", "notify", words));
    }
    rules
}

fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        _ => span(SignedDuration::from_millis(
            i64::try_from(ms).unwrap_or(i64::MAX),
        )),
    }
}

fn tries(policy: &QueuePolicy) -> String {
    let tries = many(policy.attempts_max.into(), "try", "tries");
    format!("{tries}, then a message is dead")
}

fn delays(retry: &RetrySchedule) -> String {
    match retry {
        RetrySchedule::Fixed { delay_ms } => format!("{} after every failed try", time(*delay_ms)),
        RetrySchedule::Table { delays_ms } => {
            let delays: Vec<String> = delays_ms.iter().map(|ms| time(*ms)).collect();
            format!("{}; the last one repeats", delays.join(", "))
        }
        RetrySchedule::Exponential {
            base_ms,
            factor,
            max_ms,
            jitter,
        } => format!(
            "{} after the first, {factor} times as long after each further one, at most {}, give or take {:.0} %",
            time(*base_ms),
            time(*max_ms),
            jitter * 100.0
        ),
    }
}

fn uncertain(policy: &QueuePolicy) -> String {
    let words = match policy.on_uncertain {
        OnUncertain::Resend => "sent again: the sink must be idempotent",
        OnUncertain::Probe => "the sink is asked whether it has the message, then decided",
        OnUncertain::Hold => "held until an operator resolves them",
    };
    match &policy.hold_codes[..] {
        [] => words.to_owned(),
        codes => format!("{words}; held at once with the code {}", codes.join(" or ")),
    }
}

fn order(policy: &QueuePolicy) -> String {
    let words = match (policy.ordered, policy.on_dead) {
        (false, _) => "none",
        (true, OnDead::Block) => "one after another in each group; a dead message blocks its group",
        (true, OnDead::Continue) => {
            "one after another in each group, which goes on after a dead one"
        }
    };
    words.to_owned()
}

fn lease(policy: &QueuePolicy) -> String {
    let most = time(policy.lease_ttl_max_ms);
    format!(
        "{}, and {most} at most if a worker asks",
        time(policy.lease_ttl_ms)
    )
}

fn at_once(policy: &QueuePolicy) -> String {
    let one = format!("{} in one process", count(policy.concurrency.into()));
    match policy.total_concurrency {
        Some(all) => format!("{one}, {} in all together", count(all.into())),
        None => one,
    }
}

fn a_second(policy: &QueuePolicy) -> String {
    let rate = |rate: Option<u32>| rate.map(|rate| many(rate.into(), "delivery", "deliveries"));
    match (
        rate(policy.rate_per_second),
        rate(policy.total_rate_per_second),
    ) {
        (None, None) => "no limit".to_owned(),
        (Some(one), None) => format!("{one} in one process"),
        (None, Some(all)) => format!("{all} in all processes together"),
        (Some(one), Some(all)) => format!("{one} in one process, {all} in all together"),
    }
}

fn payloads(policy: &QueuePolicy) -> String {
    let (one, claim) = (policy.payload_max_bytes, policy.claim_max_bytes);
    let (one, claim) = (bytes(one as u64), bytes(claim as u64));
    format!("{one} each at most, {claim} in one claim")
}

fn history(policy: &QueuePolicy) -> String {
    let keep = |ms: Option<u64>| ms.map_or_else(|| "for ever".to_owned(), time);
    let archive = if policy.archive {
        "; archived before they leave"
    } else {
        ""
    };
    format!(
        "delivered messages are kept {}, dead ones {}, keys {}{archive}",
        keep(policy.keep_ms),
        keep(policy.keep_dead_ms),
        keep(policy.keep_keys_ms)
    )
}

fn alerts(policy: &QueuePolicy) -> String {
    let Some(queue) = &policy.alert_queue else {
        return "none".to_owned();
    };
    let interval = time(policy.alert_interval_ms);
    let age = policy.alert_age_ms.map(time);
    let age = age.map_or_else(String::new, |age| {
        format!("; also when the oldest due message waits longer than {age}")
    });
    format!("in queue {queue}, of one cause at most every {interval}{age}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(policy: &QueuePolicy, field: &str) -> String {
        let rules = rules(policy);
        let rule = rules.into_iter().find(|rule| rule.field == field);
        rule.map(|rule| rule.words).unwrap_or_default()
    }

    #[test]
    fn a_policy_reads_without_json() {
        let policy = QueuePolicy::default();
        for (field, expected) in [
            ("attempts_max", "10 tries, then a message is dead"),
            (
                "retry",
                "1 s after the first, 2 times as long after each further one, at most 1 h, give or take 20 %",
            ),
            ("ordered", "none"),
            ("rate_per_second", "no limit"),
            ("alert_queue", "none"),
            ("notify", ""),
        ] {
            assert_eq!(words(&policy, field), expected);
        }
        for rule in rules(&policy) {
            assert!(!rule.words.contains(['{', '"', '[']), "{}", rule.words);
        }
        let table = RetrySchedule::Table {
            delays_ms: vec![500, 60_000],
        };
        let other = QueuePolicy {
            retry: table,
            keep_ms: Some(86_400_000),
            total_rate_per_second: Some(5),
            ..policy
        };
        assert_eq!(
            words(&other, "retry"),
            "500 ms, 1 min; the last one repeats"
        );
        assert!(words(&other, "keep_ms").contains("kept 24 h, dead ones for ever"));
        let all = "5 deliveries in all processes together";
        assert_eq!(words(&other, "rate_per_second"), all);
    }
}
