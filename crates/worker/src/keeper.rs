//! Renews leases: each at a third of its life, and at least once a minute, whatever
//! its messages are doing.
//!
//! A task of its own, so that neither a sink that hogs its queue's task nor a slow settle keeps a
//! lease from being renewed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use consign_kernel::{Fence, RenewAnswer, Result, Token};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until},
};

use crate::{
    backoff::{Backoff, chance},
    context::Context,
    ops::bounded,
    owned_lease::LeaseClock,
};

/// Renewals under way at once. Connections are shared with claims and settles.
const RENEWALS_MAX: usize = 4;
/// A dead worker is detected by the age of its last renewal, however long its lease.
const RENEWAL_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// A renewal is given at least this long, however short the lease.
const RENEWAL_MIN: Duration = Duration::from_millis(50);

/// A queue's handle of the task that renews its leases.
#[derive(Debug)]
pub(crate) struct Keeper {
    commands: mpsc::UnboundedSender<Command>,
    lost: mpsc::UnboundedReceiver<Fence>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
enum Command {
    Add(Fence, RenewalState),
    Forget(Fence),
}

#[derive(Debug)]
struct RenewalState {
    token: Token,
    clock: Arc<LeaseClock>,
    /// When to renew next; none while a renewal is under way.
    due: Option<Instant>,
    backoff: Backoff,
}

impl Keeper {
    pub(crate) fn start(context: Arc<Context>) -> Self {
        let (commands, orders) = mpsc::unbounded_channel();
        let (losses, lost) = mpsc::unbounded_channel();
        let renewals = Renewals {
            context,
            losses,
            leases: BTreeMap::new(),
            due: BTreeSet::new(),
            under_way: JoinSet::new(),
        };
        Self {
            commands,
            lost,
            task: tokio::spawn(renewals.run(orders)),
        }
    }

    /// Renews this lease from now on; `since` is when its claim was sent, `ttl` how long it lives.
    pub(crate) fn add(
        &self,
        fence: Fence,
        token: Token,
        clock: Arc<LeaseClock>,
        since: Instant,
        ttl: Duration,
    ) {
        let renewal = RenewalState {
            token,
            clock,
            due: Some(since + interval(ttl)),
            backoff: retry_pace(ttl),
        };
        self.send(Command::Add(fence, renewal));
    }

    pub(crate) fn forget(&self, fence: Fence) {
        self.send(Command::Forget(fence));
    }

    /// The next lease found lost.
    pub(crate) async fn lost(&mut self) -> Option<Fence> {
        self.lost.recv().await
    }

    /// Whether the task has ended, which only a defect can cause.
    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    fn send(&self, command: Command) {
        // The task ends only with the queue, or by a panic, which `has_ended` detects.
        drop(self.commands.send(command));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn interval(ttl: Duration) -> Duration {
    (ttl / 3).min(RENEWAL_INTERVAL_MAX)
}

/// Failed renewals are repeated soon enough to leave several tries before the lease ends.
fn retry_pace(ttl: Duration) -> Backoff {
    let max = (ttl / 10).min(Duration::from_secs(1));
    Backoff::new(max / 4, max)
}

struct Renewals {
    context: Arc<Context>,
    losses: mpsc::UnboundedSender<Fence>,
    leases: BTreeMap<Fence, RenewalState>,
    due: BTreeSet<(Instant, Fence)>,
    under_way: JoinSet<Renewal>,
}

struct Renewal {
    fence: Fence,
    sent: Instant,
    ttl: Duration,
    answer: Result<RenewAnswer>,
}

impl Renewals {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Command>) {
        loop {
            self.start_due(Instant::now());
            let has_room = self.under_way.len() < RENEWALS_MAX;
            let next = self.due.first().map(|(due, _)| *due);
            let next = next.filter(|_| has_room);
            tokio::select! {
                command = orders.recv() => match command {
                    Some(Command::Add(fence, state)) => self.insert(fence, state),
                    Some(Command::Forget(fence)) => self.forget(fence),
                    None => return,
                },
                Some(renewal) = self.under_way.join_next() => {
                    self.apply_renewal(renewal.expect("invariant: renewals are caught and not aborted"));
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    fn insert(&mut self, fence: Fence, renewal: RenewalState) {
        self.due.extend(renewal.due.map(|due| (due, fence)));
        self.leases.insert(fence, renewal);
    }

    fn forget(&mut self, fence: Fence) {
        if let Some(due) = self.leases.remove(&fence).and_then(|renewal| renewal.due) {
            self.due.remove(&(due, fence));
        }
    }

    fn start_due(&mut self, now: Instant) {
        while self.under_way.len() < RENEWALS_MAX
            && let Some((due, fence)) = self.due.first().copied()
            && due <= now
        {
            self.due.pop_first();
            let Some(renewal) = self.leases.get_mut(&fence) else {
                continue;
            };
            renewal.due = None;
            let renewal = renew(Arc::clone(&self.context), fence, renewal.token);
            self.under_way.spawn(renewal);
        }
    }

    fn apply_renewal(&mut self, renewal: Renewal) {
        // Finished while the renewal was under way: its answer no longer matters.
        let Some(lease) = self.leases.get_mut(&renewal.fence) else {
            return;
        };
        let due = match renewal.answer {
            Ok(RenewAnswer::Renewed { .. }) => {
                self.context.database_answered();
                lease.backoff.reset();
                lease.clock.prolong(renewal.sent, renewal.ttl);
                renewal.sent + interval(renewal.ttl)
            }
            Ok(RenewAnswer::LeaseLost) => {
                self.forget(renewal.fence);
                // The receiver is closed once the queue has ended.
                self.losses.send(renewal.fence).unwrap_or_default();
                return;
            }
            Err(error) => {
                self.context.database_failed(&error);
                Instant::now() + lease.backoff.next(chance())
            }
        };
        lease.due = Some(due);
        self.due.insert((due, renewal.fence));
    }
}

async fn renew(context: Arc<Context>, fence: Fence, token: Token) -> Renewal {
    let ttl = context.lease_ttl();
    let limit = (ttl / 3)
        .max(RENEWAL_MIN)
        .min(context.options.store_timeout);
    let sent = Instant::now();
    let answer = bounded("renew", limit, context.store.renew(token, ttl)).await;
    Renewal {
        fence,
        sent,
        ttl,
        answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renews_at_a_third_of_the_lease_and_at_least_every_minute() {
        let seconds = Duration::from_secs;
        for (ttl, expected) in [(3, 1), (120, 40), (180, 60), (3_600, 60)] {
            let every = interval(seconds(ttl));
            assert_eq!(every, seconds(expected), "a lease of {ttl} s");
        }
    }
}
