//! What may happen next.

use consign_kernel::{MessageId, OnUncertain, Outcome, StateKind};

use super::{
    bounds::Bounds,
    world::{LeaseNo, OutcomeKind, Stage, WorkerLease, World, instant},
};

/// One step of one party. Workers are named by the lease they believe in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A producer enqueues a message.
    Enqueue,
    /// A worker claims messages, and forgets its earlier lease: it is idle, or it crashed and
    /// was started again.
    Claim {
        /// Its place among the workers.
        worker: usize,
    },
    /// A worker prolongs its lease.
    Renew {
        /// The lease.
        lease: u8,
    },
    /// A worker records that it is about to send.
    Begin {
        /// The lease.
        lease: u8,
        /// The message.
        id: MessageId,
    },
    /// A message reaches the sink.
    Send {
        /// The lease.
        lease: u8,
        /// The message.
        id: MessageId,
    },
    /// A worker reports an outcome, perhaps for the second time.
    Settle {
        /// The lease.
        lease: u8,
        /// The message.
        id: MessageId,
        /// What it reports.
        said: OutcomeKind,
        /// Whether the store's answer reaches it.
        heard: bool,
    },
    /// The clock moves on.
    Tick,
    /// A reaper ends what has expired.
    Expire,
    /// An operator requeues a dead message, or puts back a held one.
    Rescue {
        /// The message.
        id: MessageId,
    },
    /// An operator discards a dead or held message, or cancels a ready one. A leased one is refused.
    Close {
        /// The message.
        id: MessageId,
    },
    /// The standby catches up, for the last time.
    Replicate,
    /// The standby takes over.
    FailOver,
}

/// Lists what may happen next.
pub(super) fn enabled(bounds: &Bounds, world: &World, actions: &mut Vec<Action>) {
    if world.ledger().messages < bounds.messages && world.clock == 0 {
        actions.push(Action::Enqueue);
    }
    let may_claim = world.ledger().messages > 0 && world.last_lease < bounds.leases;
    for (place, worker) in world.workers.iter().enumerate() {
        if may_claim {
            actions.push(Action::Claim { worker: place });
        }
        if let Some(belief) = &worker.belief {
            by_worker(bounds, world, belief, actions);
        }
    }
    if world.clock < bounds.ticks {
        actions.push(Action::Tick);
    }
    let now = instant(world.clock);
    let mut leases = world.store().leases(u32::MAX).into_iter();
    if leases.any(|lease| lease.expires_at <= now) {
        actions.push(Action::Expire);
    }
    if world.spent.rescues < bounds.rescues {
        let stuck = |id: &MessageId| {
            let state = world.store().state(*id).map(|state| state.kind());
            matches!(state, Some(StateKind::Dead | StateKind::Held))
        };
        actions.extend(world.ids().filter(stuck).map(|id| Action::Rescue { id }));
        let is_open = |id: &MessageId| !matches!(world.kind(*id), Some(StateKind::Delivered));
        actions.extend(world.ids().filter(is_open).map(|id| Action::Close { id }));
    }
    match world.standby {
        Some(_) => actions.push(Action::FailOver),
        None if bounds.failover && world.forgotten.is_none() => actions.push(Action::Replicate),
        None => {}
    }
}

fn by_worker(bounds: &Bounds, world: &World, belief: &WorkerLease, actions: &mut Vec<Action>) {
    let lease = belief.lease;
    if world.spent.renewals < bounds.renewals {
        actions.push(Action::Renew { lease });
    }
    for &(id, stage) in &belief.tasks {
        match stage {
            Stage::Claimed if bounds.begins => actions.push(Action::Begin { lease, id }),
            Stage::Claimed | Stage::Begun => actions.push(Action::Send { lease, id }),
            Stage::Sent | Stage::Reported(_) => {}
        }
        for said in reportable(bounds, stage) {
            let settle = |heard| settle(lease, id, said, heard);
            actions.push(settle(true));
            let first_time = !matches!(stage, Stage::Reported(_));
            if first_time && world.spent.lost_replies < bounds.lost_replies {
                actions.push(settle(false));
            }
        }
    }
}

fn settle(lease: LeaseNo, id: MessageId, said: OutcomeKind, heard: bool) -> Action {
    Action::Settle {
        lease,
        id,
        said,
        heard,
    }
}

/// What an honest worker may report: `delivered` and `uncertain` only once it has sent; after a
/// lost reply only the same again.
fn reportable(bounds: &Bounds, stage: Stage) -> Vec<OutcomeKind> {
    if let Stage::Reported(said) = stage {
        return vec![said];
    }
    let sent = stage == Stage::Sent;
    // Where a message must not be sent twice, only a message that was not sent may be retried.
    let careful = bounds.on_uncertain != OnUncertain::Resend;
    let may_say = |outcome: &Outcome| match outcome {
        Outcome::Delivered | Outcome::Uncertain => sent,
        Outcome::Retry => !(sent && careful),
        Outcome::Dead => true,
    };
    let outcomes = [Outcome::Delivered].iter().chain(bounds.outcomes);
    outcomes
        .copied()
        .filter(may_say)
        .map(OutcomeKind::from)
        .collect()
}
