//! The reference store under examination, and its broken twins.

mod skewed;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use consign_kernel::{
    LayeredStore, ManualClock, NewMessage, Produce as _, ReferenceStore, Result, Store,
    reference::{Flaw, Reference},
};
use jiff::{SignedDuration, Timestamp};

use self::skewed::Skew;
use crate::{Factory, Harness};

/// Makes reference stores, or broken twins of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceFactory {
    flaw: Option<Flaw>,
}

impl ReferenceFactory {
    /// Makes twins with this flaw. The suite must refuse them.
    pub fn flawed(flaw: Flaw) -> Self {
        Self { flaw: Some(flaw) }
    }
}

#[async_trait]
impl Factory for ReferenceFactory {
    async fn fresh(&self) -> Box<dyn Harness> {
        let start = Timestamp::from_second(1_800_000_000).expect("invariant: within the calendar");
        let clock = ManualClock::at(start);
        let reference = match self.flaw {
            Some(flaw) => Reference::default().with_flaw(flaw),
            None => Reference::default(),
        };
        Box::new(ReferenceHarness {
            store: ReferenceStore::with(reference, clock.clone(), 7),
            clock,
            standby: Mutex::new(None),
        })
    }
}

struct ReferenceHarness {
    store: ReferenceStore,
    clock: ManualClock,
    standby: Mutex<Option<Reference>>,
}

#[async_trait]
impl Harness for ReferenceHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    /// Under `WorkerClock` the second instance's clock is right, so that the two disagree.
    async fn another(&self) -> Arc<dyn Store> {
        match self.store.snapshot().flaw() {
            Some(Flaw::WorkerClock(skew)) => Arc::new(LayeredStore(Skew {
                store: self.store.clone(),
                clock: self.clock.clone(),
                skew: -SignedDuration::try_from(skew).expect("invariant: a small skew"),
            })),
            _ => self.store(),
        }
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn advance(&self, by: SignedDuration) {
        self.clock.advance(by);
    }

    async fn enqueue_in_transaction(&self, messages: &[NewMessage]) -> Result<()> {
        self.store.enqueue(messages).await.map(drop)
    }

    /// The reference has no transactions of its own: rolling back is going back.
    async fn enqueue_and_roll_back(&self, messages: &[NewMessage]) -> Result<()> {
        let before = self.store.snapshot();
        self.store.enqueue(messages).await?;
        self.store.restore(before);
        Ok(())
    }

    async fn fork_standby(&self) -> bool {
        let mut standby = self.standby.lock().expect("invariant: never poisoned");
        *standby = Some(self.store.snapshot());
        true
    }

    async fn fail_over(&self) {
        let mut standby = self.standby.lock().expect("invariant: never poisoned");
        let state = standby.take().expect("fork_standby comes first");
        self.store.restore(state);
    }
}
