//! The rules, as properties of the model.

use consign_kernel::{State, StateKind, codes};
use stateright::Property;

use super::{
    Bounds, StoreModel,
    world::{LastAnswer, World},
};

/// What must never be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// At most one delivered attempt per message.
    OneDelivery,
    /// A lease that ended, or that a failover made the store forget, settles, renews and begins
    /// nothing.
    OnlyTheLive,
    /// A lease that lives is not taken away.
    LiveIsHonoured,
    /// Two live leases never hold the same message.
    NoOverlap,
    /// A repeated settle returns what was recorded.
    RepeatIsTold,
    /// The fences of a message's attempts strictly increase.
    FencesGrow,
    /// Every message is in exactly one state, and its attempts have no gap.
    OnePlace,
    /// A message is dead only after its counted tries, or because a worker reported it.
    DeadForAReason,
    /// A message that has used up its tries is not tried again by itself.
    TriesAreLimited,
    /// A dead message leaves only by a requeue or a discard.
    DeadStays,
    /// A delivered message stays delivered.
    DeliveredIsFinal,
    /// A discarded message stays discarded.
    DiscardedIsFinal,
    /// With `on_uncertain = hold`, what had begun when its lease ended is not sent again by itself.
    HeldWhenInDoubt,
    /// A message is not handed to a worker once it has expired.
    NotAfterItsTime,
    /// Everything the sink received is recorded, or was lost by a failover.
    DuplicatesExplained,
}

impl Rule {
    /// The name of the property.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneDelivery => "at most one delivered attempt",
            Self::OnlyTheLive => "a lost lease is refused",
            Self::LiveIsHonoured => "a live lease is honoured",
            Self::NoOverlap => "live leases never overlap",
            Self::RepeatIsTold => "a repeated settle returns what was recorded",
            Self::FencesGrow => "fences strictly increase",
            Self::OnePlace => "every message is in exactly one state",
            Self::DeadForAReason => "dead only after its tries or by report",
            Self::TriesAreLimited => "tries are limited",
            Self::DeadStays => "dead leaves only by requeue or discard",
            Self::DeliveredIsFinal => "delivered is final",
            Self::DiscardedIsFinal => "discarded is final",
            Self::HeldWhenInDoubt => "in doubt is held",
            Self::NotAfterItsTime => "what has expired is not claimed",
            Self::DuplicatesExplained => "every duplicate is explained",
        }
    }
}

/// A set of broken rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Alarms(u16);

impl Alarms {
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn raise(&mut self, rule: Rule) {
        self.0 |= 1 << rule as u16;
    }

    fn has_kept(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u16) == 0
    }
}

/// The rules that must always hold, and the rare states that must have been reached: a model that
/// never rejects a settle is no evidence about rejection.
pub(super) fn properties(bounds: &Bounds) -> Vec<Property<StoreModel>> {
    let mut properties = always();
    let drains = |_: &StoreModel, world: &World| world.drains();
    properties.push(Property::always(
        "one healthy worker drains the queue",
        drains,
    ));
    properties.extend(sometimes());
    if bounds.lost_replies > 0 {
        let holds = |_: &StoreModel, world: &World| world.has_answer(LastAnswer::AlreadySettled);
        properties.push(Property::sometimes("a settle is repeated", holds));
    }
    if bounds.failover {
        let zombie = |_: &StoreModel, world: &World| world.has_zombie();
        let twins = |_: &StoreModel, world: &World| world.has_fence_twins();
        properties.push(Property::sometimes("a failover leaves a zombie", zombie));
        properties.push(Property::sometimes("a fence is given twice", twins));
    }
    if bounds.expires.is_some() {
        let expires = |_: &StoreModel, world: &World| world.has_expired();
        properties.push(Property::sometimes("a message expires", expires));
    }
    // Every lost lease takes a tick.
    if u32::from(bounds.ticks) >= bounds.attempts_max {
        let dies = |_: &StoreModel, world: &World| world.has_exhausted();
        properties.push(Property::sometimes("a message dies exhausted", dies));
    }
    if bounds.rescues > 0 {
        let rescued = |_: &StoreModel, world: &World| {
            let delivered = |id| world.kind(id) == Some(StateKind::Delivered);
            let ledger = world.ledger();
            let mut rescued = ledger.requeued.keys().chain(ledger.unheld.keys());
            rescued.any(|id| delivered(*id))
        };
        properties.push(Property::sometimes("a rescued message arrives", rescued));
        let late = |_: &StoreModel, world: &World| {
            let is_discarded = |id| world.kind(id) == Some(StateKind::Discarded);
            let mut received = world.sink.iter().map(|reception| reception.id);
            received.any(is_discarded)
        };
        properties.push(Property::sometimes(
            "a message that was sent is discarded",
            late,
        ));
    }
    properties
}

fn always() -> Vec<Property<StoreModel>> {
    use Rule::*;
    macro_rules! always {
        ($($rule:ident),*) => {
            vec![$(Property::always($rule.name(), |_, world: &World| world.alarms.has_kept($rule))),*]
        };
    }
    always![
        OneDelivery,
        OnlyTheLive,
        LiveIsHonoured,
        NoOverlap,
        RepeatIsTold,
        FencesGrow,
        OnePlace,
        DeadForAReason,
        TriesAreLimited,
        DeadStays,
        DeliveredIsFinal,
        DiscardedIsFinal,
        HeldWhenInDoubt,
        NotAfterItsTime,
        DuplicatesExplained
    ]
}

fn sometimes() -> Vec<Property<StoreModel>> {
    vec![
        Property::sometimes("a settle is refused", |_, world: &World| {
            world.has_answer(LastAnswer::LeaseLost)
        }),
        Property::sometimes("the sink gets a duplicate", |_, world: &World| {
            world.sink.windows(2).any(|pair| pair[0].id == pair[1].id)
        }),
        Property::sometimes("everything is delivered", |model, world: &World| {
            let delivered = |id| world.kind(id) == Some(StateKind::Delivered);
            world.ledger().messages == model.bounds.messages && world.ids().all(delivered)
        }),
    ]
}

impl World {
    fn has_answer(&self, answer: LastAnswer) -> bool {
        self.workers.iter().any(|worker| worker.heard == answer)
    }

    /// A worker believes in a lease that a failover made the store forget.
    fn has_zombie(&self) -> bool {
        let mut beliefs = self.workers.iter().flat_map(|worker| &worker.belief);
        beliefs.any(|belief| self.is_forgotten(belief.lease))
    }

    /// A message is dead because its time passed.
    fn has_expired(&self) -> bool {
        self.ids().any(|id| {
            matches!(self.store().state(id), Some(State::Dead { code, .. }) if code == codes::EXPIRED_BEFORE_DELIVERY)
        })
    }

    /// A message is dead because its tries are used up.
    fn has_exhausted(&self) -> bool {
        self.ids().any(|id| match self.store().state(id) {
            Some(State::Dead { code, .. }) => {
                [codes::ATTEMPTS_EXHAUSTED, codes::LEASE_EXPIRED].contains(&code.as_str())
            }
            _ => false,
        })
    }

    /// A zombie and a live worker hold the same message under the same fence: the trap into which
    /// a counter used as a token falls.
    fn has_fence_twins(&self) -> bool {
        match self.workers.each_ref().map(|worker| &worker.belief) {
            [Some(one), Some(other)] => one.fence == other.fence && one.tasks == other.tasks,
            _ => false,
        }
    }
}
