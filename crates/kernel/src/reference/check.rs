//! The invariants, as `doctor` checks them.

use std::collections::BTreeMap;

use super::{Entry, Reference};
use crate::{AttemptOutcome, Finding, MessageId, Queue, QueueName, alert_finding};

impl Reference {
    /// Every violated invariant; empty when there is none.
    pub fn check(&self) -> Vec<Finding> {
        let locations = self.locations();
        let mut findings = Vec::new();
        for (id, message) in &self.messages {
            let history = self.history(*id);
            let delivered = history
                .iter()
                .filter(|a| a.outcome == AttemptOutcome::Delivered)
                .count();
            let entries = locations.get(id).map_or(&[][..], Vec::as_slice);
            let states_count = entries.len() + usize::from(delivered > 0);
            if states_count != 1 {
                findings.push(finding(
                    if states_count == 0 {
                        "message_lost"
                    } else {
                        "message_doubled"
                    },
                    *id,
                    format!("has {states_count} states"),
                ));
            }
            if delivered > 1 {
                findings.push(finding(
                    "delivered",
                    *id,
                    format!("was delivered {delivered} times"),
                ));
            }
            if history
                .iter()
                .zip(1..)
                .any(|(attempt, no)| attempt.attempt_no != no)
            {
                findings.push(finding("attempts", *id, "has a gap in its attempts".into()));
            }
            let counted = |entry: &Entry| entry.attempts as usize == history.len();
            if !entries.iter().all(counted) {
                findings.push(finding(
                    "attempts",
                    *id,
                    "carries a wrong attempt count".into(),
                ));
            }
            if let Some(group) = &message.group
                && self.policy(&message.queue).ordered
            {
                let active = delivered == 0
                    && !self.dead.contains_key(id)
                    && !self.discarded.contains_key(id)
                    && !self.held.contains_key(id)
                    && !self
                        .waiting
                        .contains_key(&(message.queue.clone(), group.clone(), *id));
                let head = self.heads.get(&(message.queue.clone(), group.clone()));
                if active && head != Some(id) {
                    findings.push(finding(
                        "group_head",
                        *id,
                        "is not the head of its group".into(),
                    ));
                }
            }
        }
        findings.extend(self.check_erased());
        findings.extend(self.check_departed());
        findings.extend(self.check_alerts());
        findings
    }

    /// Every alert is taken by its queue.
    fn check_alerts(&self) -> Vec<Finding> {
        let failing = |(name, queue): (&QueueName, &Queue)| {
            let alert_queue = queue.policy.alert_queue.as_ref()?;
            let mut rows = self.alerts.0.iter().filter(|(key, _)| key.queue == *name);
            let failure = rows.find_map(|(_, row)| row.failure.as_deref())?;
            Some(alert_finding(name.as_str(), alert_queue.as_str(), failure))
        };
        self.queues.iter().filter_map(failing).collect()
    }

    /// An erased message is final, and its content is gone.
    fn check_erased(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (id, message) in self.messages.iter() {
            if !self.erasures.contains_key(id) {
                continue;
            }
            let is_final = self.kind(*id).is_finished();
            let (attempts, late) = (self.history(*id), self.late(*id));
            let holds_content = message.payload.as_str() != "null"
                || !message.headers.is_empty()
                || attempts
                    .iter()
                    .any(|a| a.detail.is_some() || a.result.is_some())
                || late
                    .iter()
                    .any(|late| late.detail.is_some() || late.result.is_some());
            if !is_final || holds_content {
                let what = "was erased, but has content or is not final";
                findings.push(finding("erasure", *id, what.into()));
            }
        }
        findings
    }

    /// What has left, and what is leaving.
    fn check_departed(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for former in self.former_keys.values() {
            if self.messages.contains_key(&former.message_id) {
                findings.push(finding(
                    "former_key",
                    former.message_id,
                    "has a key of messages that have left".into(),
                ));
            }
        }
        let under_way = self.departures.values().filter(|row| !row.is_over);
        for row in under_way.skip(1) {
            findings.push(Finding {
                code: "departure".to_owned(),
                what: format!(
                    "departure {} began while another was under way",
                    row.departure.id
                ),
                remedy: "this is a defect in the reference store".to_owned(),
                ids: Vec::new(),
            });
        }
        findings
    }

    /// Every table entry that holds a message; delivered ones have none.
    fn locations(&self) -> BTreeMap<MessageId, Vec<Entry>> {
        let ready = self
            .ready
            .values()
            .flat_map(|batch| batch.entries.iter().copied());
        let leased = self
            .leases
            .values()
            .flat_map(|lease| lease.entries.iter().copied());
        let held = self.held.values().map(|held| held.entry);
        let waiting = self.waiting.values().map(|waiting| waiting.entry);
        let dead = self.dead.iter().map(|(id, dead)| Entry {
            id: *id,
            tries: 0,
            attempts: dead.attempt_no,
        });
        let discarded = self.discarded.iter().map(|(id, discarded)| Entry {
            id: *id,
            tries: 0,
            attempts: discarded.attempts,
        });
        let finished = dead.chain(discarded);
        let mut locations: BTreeMap<MessageId, Vec<Entry>> = BTreeMap::new();
        for entry in ready
            .chain(leased)
            .chain(held)
            .chain(waiting)
            .chain(finished)
        {
            locations.entry(entry.id).or_default().push(entry);
        }
        locations
    }
}

fn finding(code: &str, id: MessageId, what: String) -> Finding {
    Finding {
        code: code.to_owned(),
        what: format!("message {id} {what}"),
        remedy: "this is a defect in the reference store".to_owned(),
        ids: vec![id],
    }
}
