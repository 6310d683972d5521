//! Rows of queues.

use consign_kernel::{Counts, Queue, QueueName, Situation};
use consign_worker::{BreakerState, QueueStatus};
use jiff::{SignedDuration, Timestamp};

use super::words::{Moment, count, span};
use crate::{problem::Problem, state::AppState};

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

/// Everything about queues at one moment.
pub(super) struct Queues {
    pub(super) queues: Vec<(Queue, Counts)>,
    pub(super) working: Vec<QueueStatus>,
    pub(super) now: Timestamp,
}

impl Queues {
    /// A page of queues by name.
    pub(super) async fn look(state: &AppState, after: Option<&QueueName>) -> Result<Self, Problem> {
        let queues = state.queues(after, QUEUES_SHOWN).await?;
        Ok(Self::of(state, queues))
    }

    /// The first page of a situation.
    pub(super) fn first(state: &AppState, situation: &Situation) -> Self {
        let mut queues = situation.queues.clone();
        queues.truncate(QUEUES_SHOWN as usize);
        Self::of(state, queues)
    }

    /// These queues.
    pub(super) fn of(state: &AppState, queues: Vec<(Queue, Counts)>) -> Self {
        let status = state.worker.as_ref().map(|worker| worker.status());
        Self {
            queues,
            working: status.map(|status| status.queues).unwrap_or_default(),
            now: (state.clock)(),
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
}
