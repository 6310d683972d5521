//! Rows of queues, and alerts about them.

use consign_kernel::{Counts, Queue, QueueName};
use consign_worker::{BreakerState, QueueStatus};
use jiff::{SignedDuration, Timestamp};

use super::words::{Moment, count, many, span};
use crate::{extension::QueueProfile, problem::Problem, state::AppState};

/// A ready message that is not claimed for this long raises an alert.
const UNCLAIMED: SignedDuration = SignedDuration::from_mins(5);

/// How many queues a page shows.
pub(super) const QUEUES_SHOWN: u32 = 200;

/// The state of a closed breaker.
const CLOSED: &str = "closed";

/// A queue with what is in it.
pub(super) struct QueueRow {
    pub(super) name: String,
    pub(super) ready: String,
    pub(super) scheduled: String,
    pub(super) waiting: String,
    pub(super) leased: String,
    pub(super) held: u64,
    pub(super) dead: u64,
    /// How long the oldest ready message has been due.
    pub(super) oldest: Option<String>,
    pub(super) paused: Option<Moment>,
    /// How deliveries are let through, where a worker of this process makes them.
    pub(super) breaker: Option<&'static str>,
}

impl QueueRow {
    /// The state of a breaker that keeps deliveries back.
    pub(super) fn open_breaker(&self) -> Option<&'static str> {
        self.breaker.filter(|state| *state != CLOSED)
    }
}

/// An alert, and the page to go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alert {
    pub(super) words: String,
    pub(super) path: String,
}

/// Everything about queues at one moment.
pub(super) struct Queues {
    pub(super) queues: Vec<(Queue, Counts)>,
    pub(super) working: Vec<QueueStatus>,
    pub(super) now: Timestamp,
    profiles: Vec<QueueProfile>,
}

impl Queues {
    /// A page of queues by name.
    pub(super) async fn look(state: &AppState, after: Option<&QueueName>) -> Result<Self, Problem> {
        let queues = state.queues(after, QUEUES_SHOWN).await?;
        Ok(Self::of(state, queues))
    }

    /// These queues.
    pub(super) fn of(state: &AppState, queues: Vec<(Queue, Counts)>) -> Self {
        let status = state.worker.as_ref().map(|worker| worker.status());
        Self {
            queues,
            working: status.map(|status| status.queues).unwrap_or_default(),
            now: (state.clock)(),
            profiles: state
                .extensions
                .iter()
                .filter_map(|it| it.queue())
                .collect(),
        }
    }

    /// Where the next page begins, if there may be one.
    pub(super) fn next(&self) -> Option<&QueueName> {
        let last = self.queues.last().map(|(queue, _)| &queue.name);
        last.filter(|_| self.queues.len() == QUEUES_SHOWN as usize)
    }

    fn worker_of(&self, queue: &Queue) -> Option<&QueueStatus> {
        self.working
            .iter()
            .find(|status| status.queue == queue.name)
    }

    pub(super) fn row(&self, queue: &Queue, counts: &Counts) -> QueueRow {
        let breaker = self.worker_of(queue).map(|status| match status.breaker {
            BreakerState::Closed => CLOSED,
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half open",
        });
        QueueRow {
            name: queue.name.to_string(),
            ready: count(counts.ready),
            scheduled: count(counts.scheduled),
            waiting: count(counts.waiting),
            leased: count(counts.leased),
            held: counts.held,
            dead: counts.dead,
            oldest: counts
                .oldest_due_at
                .map(|due_at| span(self.now.duration_since(due_at).max(SignedDuration::ZERO))),
            paused: queue.paused_at.map(|at| Moment::new(at, self.now)),
            breaker,
        }
    }

    /// The alerts of one queue.
    pub(super) fn alerts_of(&self, queue: &Queue, counts: &Counts) -> Vec<Alert> {
        let name = &queue.name;
        let to = |words: String, state: &str| Alert {
            words,
            path: format!("/ui/queues/{name}{state}"),
        };
        let mut alerts = Vec::new();
        if counts.held > 0 {
            let profile = self.profiles.iter().find(|it| it.queue == name.as_str());
            let words = match profile.and_then(|profile| profile.held) {
                Some(held) => held(counts.held),
                None => format!(
                    "{} of queue {name} held: resolve or unhold",
                    many(counts.held, "message", "messages")
                ),
            };
            alerts.push(to(words, "?state=held"));
        }
        if let Some(paused_at) = queue.paused_at {
            let time = span(self.now.duration_since(paused_at));
            alerts.push(to(format!("Queue {name} has been paused for {time}"), ""));
        }
        if let Some(status) = self.worker_of(queue) {
            if status.breaker == BreakerState::Open {
                let words = format!(
                    "Breaker open: nothing is delivered to {}",
                    status.destination
                );
                alerts.push(to(format!("Queue {name}: {words}"), ""));
            }
            if let Some(error) = &status.database_error {
                alerts.push(to(
                    format!("Queue {name}: the worker cannot reach the database: {error}"),
                    "",
                ));
            }
        }
        let age = counts.oldest_due_at.map(|at| self.now.duration_since(at));
        // Another alert already has the reason.
        let is_known = queue.paused_at.is_some()
            || self
                .worker_of(queue)
                .is_some_and(|status| status.breaker != BreakerState::Closed);
        if let Some(age) = age.filter(|age| *age > UNCLAIMED && !is_known) {
            let words = format!(
                "Queue {name}: the oldest ready message has been due for {}; is a worker running?",
                span(age)
            );
            alerts.push(to(words, "?state=ready"));
        }
        if counts.dead > 0 {
            let dead = many(counts.dead, "message", "messages");
            let words = format!("{dead} of queue {name} dead: not tried again until requeued");
            alerts.push(Alert {
                words,
                path: format!("/ui/dead?queue={name}"),
            });
        }
        alerts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consign_kernel::QueuePolicy;

    fn alerts(name: &str, paused: bool, counts: Counts) -> Vec<String> {
        let now = Timestamp::from_second(10_000).unwrap();
        let queue = Queue {
            name: name.parse().unwrap(),
            policy: QueuePolicy::default(),
            paused_at: paused.then(|| now - SignedDuration::from_mins(2)),
        };
        let queues = Queues {
            queues: Vec::new(),
            working: Vec::new(),
            now,
            profiles: vec![QueueProfile {
                queue: "parcels",
                title: "Parcels",
                counts: [""; 4],
                held: Some(|held| format!("{held} parcels held")),
                resolve_fields: "",
                resolves_unknown: true,
                can_erase: true,
            }],
        };
        let alerts = queues.alerts_of(&queue, &counts);
        alerts.into_iter().map(|alert| alert.words).collect()
    }

    #[test]
    fn alerts_show_only_what_needs_an_operator() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        assert!(
            alerts(
                "mail",
                false,
                Counts {
                    ready: 9,
                    oldest_due_at: at(9_900),
                    ..Counts::default()
                }
            )
            .is_empty()
        );
        let held = Counts {
            held: 3,
            ..Counts::default()
        };
        assert_eq!(alerts("parcels", false, held), ["3 parcels held"]);
        assert_eq!(
            alerts("mail", false, held),
            ["3 messages of queue mail held: resolve or unhold"]
        );
        let late = Counts {
            ready: 1,
            oldest_due_at: at(9_000),
            ..Counts::default()
        };
        assert_eq!(
            alerts("mail", false, late),
            ["Queue mail: the oldest ready message has been due for 16 min; is a worker running?"]
        );
        assert_eq!(
            alerts("mail", true, late),
            ["Queue mail has been paused for 2 min"]
        );
        let dead = Counts {
            dead: 1,
            ..Counts::default()
        };
        assert_eq!(
            alerts("mail", false, dead),
            ["1 message of queue mail dead: not tried again until requeued"]
        );
    }
}
