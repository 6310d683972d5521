//! The account by which the store is judged: who was promised what, until when.

use std::collections::{BTreeMap, BTreeSet};

use consign_kernel::{Fence, MessageId, Token};

use super::world::LeaseNo;

/// What the store has promised in this timeline. Kept by the model from the answers alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    /// Messages enqueued.
    pub(super) messages: u8,
    /// Leases that live by the database's clock.
    pub(super) live_leases: BTreeMap<LeaseNo, LiveLease>,
    /// What was settled under which lease.
    pub(super) settled: BTreeSet<(LeaseNo, MessageId)>,
    /// How many attempts a message had when an operator last requeued it.
    pub(super) requeued: BTreeMap<MessageId, usize>,
    /// How many attempts a message had when an operator last put it back from where it was held.
    pub(super) unheld: BTreeMap<MessageId, usize>,
    /// The newest lease and its fence.
    pub(super) last: Option<(LeaseNo, Fence)>,
}

/// A lease that lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LiveLease {
    pub(super) token: Token,
    /// The tick at which it ends.
    pub(super) expires: u8,
    /// What it holds and has not settled.
    pub(super) open: BTreeSet<MessageId>,
}

/// What the answer to a settle must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The lease lives and holds the message.
    Live,
    /// The lease has settled the message before.
    Settled,
    /// The lease ended, or does not exist on this timeline.
    Lost,
}

impl Ledger {
    pub(super) fn verdict(&self, lease: LeaseNo, id: MessageId) -> Verdict {
        if self.settled.contains(&(lease, id)) {
            return Verdict::Settled;
        }
        match self.live_leases.get(&lease) {
            Some(promise) if promise.open.contains(&id) => Verdict::Live,
            _ => Verdict::Lost,
        }
    }

    /// Who holds a message now.
    pub(super) fn holder(&self, id: MessageId) -> Option<&LiveLease> {
        self.live_leases
            .values()
            .find(|promise| promise.open.contains(&id))
    }

    pub(super) fn settle(&mut self, lease: LeaseNo, id: MessageId) {
        self.settled.insert((lease, id));
        if let Some(promise) = self.live_leases.get_mut(&lease) {
            promise.open.remove(&id);
            if promise.open.is_empty() {
                self.live_leases.remove(&lease);
            }
        }
    }

    /// Drops the leases that have ended by the database's clock.
    pub(super) fn strike(&mut self, clock: u8) {
        self.live_leases
            .retain(|_, promise| promise.expires > clock);
    }

    /// The newest lease of this timeline; zero if there is none.
    pub(super) fn last_lease(&self) -> LeaseNo {
        self.last.map_or(0, |(lease, _)| lease)
    }

    /// The newest fence of this timeline; zero if there is none.
    pub(super) fn last_fence(&self) -> Fence {
        self.last.map_or(Fence(0), |(_, fence)| fence)
    }
}
