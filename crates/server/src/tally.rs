//! Queue stats of workers that use the HTTP API. A worker of consign's own counts by itself; one that
//! uses HTTP is counted here, where its results are recorded.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use consign_kernel::{AttemptOutcome, OutcomeCounts, QueueName, QueueStats, Token};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// Leases remembered at most; of one that was forgotten, only the time it took is not known.
const LEASES_MAX: usize = 2_000;
/// Ended leases, remembered so that a repeated report counts once.
const ENDED_MAX: usize = 10_000;
/// Results of leases that were not taken here, remembered for the same reason.
const FOREIGN_MAX: usize = 50_000;

/// Queues looked up at once, at most. What is recorded while as many are looked up is not counted:
/// rates may be a little low, but a worker never waits for them.
const LOOK_UPS_MAX: usize = 4;

/// Queues that metrics name, at most: with more, `/metrics` would be a page that no scraper reads.
const NAMED_MAX: usize = 1_000;
/// The label of all others; no queue can have this name.
const OTHER_QUEUES: &str = "_other";

/// What is counted, queue by queue.
#[derive(Debug)]
pub(crate) struct Tally {
    counted: Mutex<TallyState>,
    /// Queues that metrics name.
    named: Mutex<HashSet<QueueName>>,
    look_ups: Arc<Semaphore>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            counted: Mutex::default(),
            named: Mutex::default(),
            look_ups: Arc::new(Semaphore::new(LOOK_UPS_MAX)),
        }
    }
}

#[derive(Debug, Default)]
struct TallyState {
    leases: HashMap<Token, LocalLease>,
    /// Their tokens, oldest first; some have ended since.
    order: VecDeque<Token>,
    ended: HashSet<Token>,
    ended_order: VecDeque<Token>,
    /// Results under tokens that were not issued here, oldest first in the order.
    foreign: HashSet<(Token, u128)>,
    foreign_order: VecDeque<(Token, u128)>,
    done: BTreeMap<QueueName, (OutcomeCounts, Duration)>,
}

/// A lease that was taken here.
#[derive(Debug)]
struct LocalLease {
    queue: QueueName,
    /// What has no result yet.
    open: HashSet<u128>,
    /// When it was taken, or last reported on.
    since: Instant,
}

/// A result: about what, and which.
pub type TallyEntry = (u128, AttemptOutcome);

impl Tally {
    /// What metrics call a queue.
    pub(crate) fn label(&self, queue: &QueueName) -> String {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.contains(queue) {
            return queue.to_string();
        }
        if named.len() >= NAMED_MAX {
            return OTHER_QUEUES.to_owned();
        }
        named.insert(queue.clone());
        queue.to_string()
    }

    /// A lease was taken.
    pub(crate) fn claimed(
        &self,
        token: Token,
        queue: &QueueName,
        messages: impl Iterator<Item = u128>,
    ) {
        let held = LocalLease {
            queue: queue.clone(),
            open: messages.collect(),
            since: Instant::now(),
        };
        let mut counted = self.counted();
        counted.leases.insert(token, held);
        counted.order.push_back(token);
        while counted.order.len() > LEASES_MAX {
            let oldest = counted.order.pop_front();
            oldest.map(|oldest| counted.leases.remove(&oldest));
        }
    }

    /// The queue of a live lease that was taken here.
    pub(crate) fn queue(&self, token: Token) -> Option<QueueName> {
        let counted = self.counted();
        counted.leases.get(&token).map(|held| held.queue.clone())
    }

    /// A turn to look up the queue of a lease that was not taken here.
    pub(crate) fn look_up(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.look_ups).try_acquire_owned().ok()
    }

    /// Results were recorded; those counted before are not counted again.
    pub(crate) fn recorded(&self, token: Token, queue: &QueueName, entries: &[TallyEntry]) {
        let mut guard = self.counted();
        let counted = &mut *guard;
        let is_timed = counted.leases.contains_key(&token);
        let (new, took) = match counted.leases.get_mut(&token) {
            Some(held) => {
                let took = held.since.elapsed();
                held.since = Instant::now();
                let new = entries.iter().filter(|(id, _)| held.open.remove(id));
                (new.copied().collect::<Vec<_>>(), took)
            }
            // A repeated report.
            None if counted.ended.contains(&token) => return,
            // Taken elsewhere.
            None => {
                let entries = entries.iter().copied();
                let new = entries.filter(|(id, _)| counted.is_first(token, *id));
                (new.collect(), Duration::ZERO)
            }
        };
        let (done, time) = counted.done.entry(queue.clone()).or_default();
        new.iter().for_each(|(_, outcome)| count(done, *outcome));
        if !new.is_empty() {
            *time += took;
        }
        if is_timed {
            done.count_latency(took, new.len() as u64);
        }
        counted.end(token);
    }

    /// What was recorded since the last call. A queue that was worked on once stays.
    pub(crate) fn take(&self) -> Vec<QueueStats> {
        let mut counted = self.counted();
        let queues = counted.done.iter_mut().map(|(queue, (done, time))| {
            let took_ms = time.as_millis() as u64;
            *time -= Duration::from_millis(took_ms);
            QueueStats {
                queue: queue.clone(),
                done: OutcomeCounts {
                    took_ms,
                    ..std::mem::take(done)
                },
            }
        });
        queues.collect()
    }

    fn counted(&self) -> MutexGuard<'_, TallyState> {
        // Numbers are whole at any moment.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TallyState {
    /// Whether this result is new, as far as is remembered.
    fn is_first(&mut self, token: Token, id: u128) -> bool {
        if !self.foreign.insert((token, id)) {
            return false;
        }
        self.foreign_order.push_back((token, id));
        if self.foreign_order.len() > FOREIGN_MAX {
            let oldest = self.foreign_order.pop_front();
            oldest.map(|oldest| self.foreign.remove(&oldest));
        }
        true
    }

    /// Forgets a lease whose messages all have results.
    fn end(&mut self, token: Token) {
        let is_open = |held: &LocalLease| !held.open.is_empty();
        if self.leases.get(&token).is_none_or(is_open) {
            return;
        }
        self.leases.remove(&token);
        if self.ended.insert(token) {
            self.ended_order.push_back(token);
        }
        while self.ended_order.len() > ENDED_MAX {
            let oldest = self.ended_order.pop_front();
            oldest.map(|oldest| self.ended.remove(&oldest));
        }
    }
}

fn count(done: &mut OutcomeCounts, outcome: AttemptOutcome) {
    match outcome {
        AttemptOutcome::Delivered => done.delivered += 1,
        AttemptOutcome::Retry => done.retried += 1,
        AttemptOutcome::Dead => done.dead += 1,
        AttemptOutcome::Uncertain => done.uncertain += 1,
        // A result without a lease.
        AttemptOutcome::Expired => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use uuid::Uuid;

    use super::*;

    use AttemptOutcome::{Dead, Delivered, Retry};

    #[tokio::test(start_paused = true)]
    async fn every_result_counts_once() {
        let tally = Tally::default();
        let mail: QueueName = "mail".parse().unwrap();
        let (here, elsewhere) = (Token(Uuid::from_u128(1)), Token(Uuid::from_u128(2)));
        tally.claimed(here, &mail, [1, 2].into_iter());
        assert_eq!(tally.queue(here), Some(mail.clone()));
        assert_eq!(tally.queue(elsewhere), None);
        advance(Duration::from_millis(300)).await;
        tally.recorded(here, &mail, &[(1, Delivered)]);
        tally.recorded(here, &mail, &[(1, Delivered)]);
        advance(Duration::from_millis(100)).await;
        tally.recorded(here, &mail, &[(1, Delivered), (2, Retry)]);
        tally.recorded(here, &mail, &[(2, Retry)]);
        tally.recorded(elsewhere, &mail, &[(3, Dead)]);
        tally.recorded(elsewhere, &mail, &[(3, Dead)]);
        tally.recorded(elsewhere, &mail, &[(3, Dead), (4, Dead)]);
        let expected = OutcomeCounts {
            delivered: 1,
            retried: 1,
            dead: 2,
            took_ms: 400,
            // One after 300 ms, the other 100 ms later.
            latency: [0, 0, 0, 1, 0, 1, 0, 0, 0, 0],
            ..OutcomeCounts::default()
        };
        let taken = tally.take();
        assert_eq!(
            (taken.len(), &taken[0].queue, taken[0].done),
            (1, &mail, expected)
        );
        assert_eq!(tally.take()[0].done, OutcomeCounts::default());
        assert_eq!(tally.queue(here), None, "nothing is left of it");
    }

    #[tokio::test]
    async fn what_is_remembered_has_a_bound() {
        let tally = Tally::default();
        let mail: QueueName = "mail".parse().unwrap();
        for number in 0..(LEASES_MAX as u128 + 5) {
            tally.claimed(Token(Uuid::from_u128(number)), &mail, [number].into_iter());
        }
        let elsewhere = Token(Uuid::from_u128(u128::MAX));
        for id in 0..(FOREIGN_MAX as u128 + 5) {
            tally.recorded(elsewhere, &mail, &[(id, Delivered)]);
        }
        let counted = tally.counted();
        assert_eq!(
            (counted.leases.len(), counted.order.len()),
            (LEASES_MAX, LEASES_MAX)
        );
        assert_eq!(
            (counted.foreign.len(), counted.foreign_order.len()),
            (FOREIGN_MAX, FOREIGN_MAX)
        );
    }
}
