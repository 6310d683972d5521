//! Alerts: counting what happened, and enqueueing what is due.

use async_trait::async_trait;
use jiff::Timestamp;

use super::Reference;
use crate::{
    ALERT_MESSAGES_MAX, AlertReason, AlertStep, Alerts, QueueName, ReferenceStore, RefusedAlert,
    alert_code,
    error::Result,
    plan::{AlertEvent, AlertKey, AlertRow},
};

#[async_trait]
impl Alerts for ReferenceStore {
    async fn record_breaker_open(&self, queue: &QueueName, code: Option<&str>) -> Result<()> {
        self.at(|reference, now| reference.record_breaker_open(now, queue, code))
    }

    async fn step_alerts(&self, limit: u32) -> Result<AlertStep> {
        self.at(|reference, now| reference.step_alerts(now, limit))
    }
}

impl Reference {
    /// Keeps an event for the next step, if the queue has alerts.
    pub(super) fn record_event(&mut self, event: AlertEvent) {
        if self.policy(&event.key.queue).alert_queue.is_some() {
            self.alert_events.push(event);
        }
    }

    /// Records that a worker's breaker opened.
    pub fn record_breaker_open(
        &mut self,
        now: Timestamp,
        queue: &QueueName,
        code: Option<&str>,
    ) -> Result<()> {
        self.known_queue(queue)?;
        self.record_event(AlertEvent {
            key: AlertKey {
                queue: queue.clone(),
                reason: AlertReason::BreakerOpen,
                code: alert_code(code),
            },
            count: 1,
            message_id: None,
            at: now,
        });
        Ok(())
    }

    /// Counts up to `limit` events, and enqueues the alerts that are due.
    pub fn step_alerts(&mut self, now: Timestamp, limit: u32) -> Result<AlertStep> {
        AlertStep::validate(limit)?;
        let taken = self.alert_events.len().min(limit as usize);
        let mut events: Vec<AlertEvent> = self.alert_events.drain(..taken).collect();
        events.sort_by(|one, other| one.key.cmp(&other.key));
        for event in events {
            let policy = &self.queues[&event.key.queue].policy;
            if policy.alert_queue.is_some() {
                let interval = policy.alert_interval();
                self.alerts.count(event, interval);
            }
        }
        self.look_for_old_queues(now);
        let queues = &self.queues;
        let policy = |name: &QueueName| queues.get(name).map(|queue| &queue.policy);
        self.alerts.forget(now, policy);
        let due = self.alerts.due(now, policy);
        let mut step = AlertStep {
            events: taken as u64,
            ..AlertStep::default()
        };
        for key in due {
            self.raise(now, &key, &mut step);
        }
        Ok(step)
    }

    fn raise(&mut self, now: Timestamp, key: &AlertKey, step: &mut AlertStep) {
        let alert = self.alerts.0[key].alert(key);
        let alert_queue = self.policy(&key.queue).alert_queue.clone();
        let alert_queue = alert_queue.expect("invariant: rows of queues without one are gone");
        let enqueued = self.enqueue(now, &[alert.message(&alert_queue)]);
        let failure = enqueued.err().map(|error| error.to_string());
        self.alerts.record(key, now, failure.clone());
        match failure {
            None => step.raised.push(alert),
            Some(failure) => step.refused.push(RefusedAlert {
                alert,
                alert_queue,
                failure,
            }),
        }
    }

    /// Counts the due messages of queues that are older than their limit.
    fn look_for_old_queues(&mut self, now: Timestamp) {
        for queue in self.queues.values() {
            let policy = &queue.policy;
            let Some(age) = policy.alert_age().filter(|_| policy.alert_queue.is_some()) else {
                continue;
            };
            let key = AlertKey {
                queue: queue.name.clone(),
                reason: AlertReason::QueueOld,
                code: String::new(),
            };
            if !self.alerts.may_alert(&key, now, policy.alert_interval()) {
                continue;
            }
            let due = self.ready.iter();
            let mut due = due.filter(|(key, _)| key.queue == queue.name && key.due_at <= now);
            let oldest = due.clone().next();
            let old = oldest.filter(|(key, _)| super::later(key.due_at, age) <= now);
            let before = self.alerts.0.get(&key).cloned().unwrap_or_default();
            let row = match old {
                Some((oldest, batch)) => AlertRow {
                    pending: due
                        .by_ref()
                        .map(|(_, batch)| batch.entries.len() as u64)
                        .sum::<u64>()
                        .min(ALERT_MESSAGES_MAX),
                    first_at: oldest.due_at,
                    last_at: now,
                    message_id: batch.entries.first().map(|entry| entry.id),
                    ..before
                },
                None => AlertRow {
                    pending: 0,
                    ..before
                },
            };
            self.alerts.0.insert(key, row);
        }
    }
}
