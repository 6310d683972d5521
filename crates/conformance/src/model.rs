//! An exhaustive model of leases, crashes, late wake-ups and failover.
//!
//! The transition function of the model *is* the reference store: every step calls
//! [`Reference`], so that exploring the model explores the specification, not a drawing of it.
//! Around the store are the parties outside of it: two workers that act on the last answer
//! they received, a sink that records what it received, a standby that lags, a clock.
//! Whatever any of them may do next is an [`Action`]; the checker takes every action in every
//! state. Two faults need no action of their own. A paused worker that wakes up late: a worker may
//! use its old lease at any later time. A crash: a worker that never acts again has crashed, and
//! one that is started again claims anew and forgets what it believed.
//!
//! The store's answers are judged by a ledger, a second and much simpler account of who was
//! promised what until when. Where store and ledger disagree, or where what the store recorded
//! breaks a [`Rule`], the state carries an alarm, the rule's property fails and the checker shows
//! the way there.
//!
//! # Bounds
//!
//! A [`Bounds`] limits how many messages, leases, clock ticks, renewals, lost replies, rescues and closures by an
//! operator and failovers a world may spend; within that, everything is explored in every order.
//! Messages are enqueued before the first tick, one at a time; the first may expire. [`Bounds::suite`] lists the worlds
//! that are explored on every change.
//!
//! A lease lives one tick, a renewed one two ticks from its renewal. Both workers give the store
//! the same name: names are no credentials, and worlds that differ only in which worker is which
//! are one.
//!
//! # Not modelled
//!
//! Ordered groups, keys, delays at enqueueing, pausing, holding by hand and releasing; settles of
//! several messages at once; a clock that goes backwards; sending twice under one lease; more than
//! one failover; a worker that reports false outcomes. The conformance cases and the
//! random comparison with the reference store cover all of these but the last.

mod action;
mod audit;
mod bounds;
mod ledger;
mod rule;
mod step;
mod world;

use consign_kernel::reference::Flaw;
#[cfg(doc)]
use consign_kernel::reference::Reference;
use stateright::{Model, Property};

pub use action::Action;
pub use bounds::Bounds;
pub use rule::Rule;
pub use world::{OutcomeKind, World};

/// The reference store, and everything that may happen to it within bounds.
#[derive(Clone, Debug)]
pub struct StoreModel {
    bounds: Bounds,
    flaw: Option<Flaw>,
}

impl StoreModel {
    /// The model of the store as specified.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, flaw: None }
    }

    /// The model of a broken twin. The checker must find what is wrong with it.
    pub fn with_flaw(self, flaw: Flaw) -> Self {
        Self {
            flaw: Some(flaw),
            ..self
        }
    }
}

impl Model for StoreModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds, self.flaw)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // What follows from a broken rule proves nothing.
        if world.alarms.is_empty() {
            action::enabled(&self.bounds, world, actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        step::Step {
            bounds: &self.bounds,
            flaw: self.flaw,
            world: &mut world,
        }
        .take(action);
        audit::audit(&self.bounds, last, action, &mut world);
        world.workers.sort();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        rule::properties(&self.bounds)
    }
}
