//! The invariants, as `doctor` checks them.

use std::collections::BTreeMap;

use super::{Entry, Reference};
use crate::{AttemptOutcome, Finding, MessageId};

impl Reference {
    /// Everything that should not be; empty when all is well.
    pub fn check(&self) -> Vec<Finding> {
        let places = self.places();
        let mut findings = Vec::new();
        for (id, message) in &self.messages {
            let history = self.history(*id);
            let delivered = history
                .iter()
                .filter(|a| a.outcome == AttemptOutcome::Delivered)
                .count();
            let entries = places.get(id).map_or(&[][..], Vec::as_slice);
            let places_count = entries.len() + usize::from(delivered > 0);
            if places_count != 1 {
                findings.push(finding(
                    "place",
                    *id,
                    format!("is in {places_count} places"),
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
                    && !self.held.contains_key(id)
                    && !self
                        .waiting
                        .contains_key(&(message.queue.clone(), group.clone(), *id));
                let turn = self.turns.get(&(message.queue.clone(), group.clone()));
                if active && turn != Some(id) {
                    findings.push(finding("turn", *id, "is out of turn in its group".into()));
                }
            }
        }
        findings
    }

    /// Every place a message is in, other than delivered.
    fn places(&self) -> BTreeMap<MessageId, Vec<Entry>> {
        let ready = self
            .ready
            .values()
            .flat_map(|run| run.entries.iter().copied());
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
        let mut places: BTreeMap<MessageId, Vec<Entry>> = BTreeMap::new();
        for entry in ready.chain(leased).chain(held).chain(waiting).chain(dead) {
            places.entry(entry.id).or_default().push(entry);
        }
        places
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
