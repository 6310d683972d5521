//! Enqueueing alerts, where the login may.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use consign_kernel::{AlertStep, Error, QueueName, Store};
use metrics::counter;
use tokio::time::{MissedTickBehavior, interval};

use crate::telemetry::metrics::{ALERTS_TOTAL, QUEUES_NAMED_MAX};

/// Records of events in one step, at most.
const STEP_EVENTS: u32 = 1_000;
/// How often to look: an alert comes so late at most.
const PAUSE: Duration = Duration::from_secs(2);
/// How rarely to look again whether the login may by now.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(600);
/// The label of queues beyond those that metrics name; no queue can have this name.
const OTHER_QUEUES: &str = "_other";

/// Takes the steps of the alerts until it is dropped. Any number of processes may.
///
/// Without the right to, it logs that once and leaves them to processes that have it.
pub(super) async fn run(store: Arc<dyn Store>) {
    let mut steps = Steps::default();
    let mut looks = interval(PAUSE);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match store.step_alerts(STEP_EVENTS).await {
            Ok(step) if steps.note(&step) => looks.reset_immediately(),
            Ok(_) => {}
            Err(Error::Forbidden { what }) => {
                if steps.failure.replace(what.clone()).is_none() {
                    tracing::info!(
                        "this process does not enqueue alerts: that needs the role consign_worker or \
                         consign_operator ({what})"
                    );
                }
                looks.reset_after(FORBIDDEN_PAUSE);
            }
            Err(error) => {
                // Logged once, not every two seconds while it lasts.
                if steps.failure.replace(error.to_string()).is_none() {
                    let code = error.code();
                    tracing::warn!(%error, code, "a step of the alerts failed; retrying");
                }
            }
        }
    }
}

/// What the steps have met so far.
#[derive(Debug, Default)]
struct Steps {
    /// Why the last one failed, until one succeeds.
    failure: Option<String>,
    /// Why alerts of a queue were not taken.
    refusals: BTreeMap<QueueName, String>,
    /// The queues that the metric names.
    named: BTreeSet<QueueName>,
}

impl Steps {
    /// Counts and logs what a step did; returns whether there may be more to do.
    fn note(&mut self, step: &AlertStep) -> bool {
        self.failure = None;
        for alert in &step.raised {
            let queue = self.label(&alert.queue);
            counter!(ALERTS_TOTAL, "queue" => queue, "reason" => alert.reason.as_str())
                .increment(1);
            self.refusals.remove(&alert.queue);
        }
        for refused in &step.refused {
            let (queue, failure) = (&refused.alert.queue, &refused.failure);
            let known = self.refusals.insert(queue.clone(), failure.clone());
            if known.as_ref() != Some(failure) {
                tracing::error!(
                    %queue,
                    "queue {queue}: its alerts cannot be enqueued into queue {}: {failure}; they are \
                     kept, and `consign queues set {queue} --alert-queue` names another",
                    refused.alert_queue
                );
            }
        }
        step.events >= u64::from(STEP_EVENTS)
    }

    fn label(&mut self, queue: &QueueName) -> String {
        if !self.named.contains(queue) && self.named.len() >= QUEUES_NAMED_MAX {
            return OTHER_QUEUES.to_owned();
        }
        self.named.insert(queue.clone());
        queue.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metric_names_a_bounded_number_of_queues() {
        let mut steps = Steps::default();
        let name = |n: usize| format!("queue-{n}").parse().unwrap();
        for n in 0..QUEUES_NAMED_MAX {
            assert_eq!(steps.label(&name(n)), format!("queue-{n}"));
        }
        assert_eq!(steps.label(&name(QUEUES_NAMED_MAX)), OTHER_QUEUES);
        assert_eq!(steps.label(&name(0)), "queue-0");
    }
}
