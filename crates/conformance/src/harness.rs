//! What a store must bring along to be examined.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::{NewMessage, Result, Store};
use jiff::{SignedDuration, Timestamp};

/// Makes fresh, empty, migrated stores. One per case.
#[async_trait]
pub trait Factory: Send + Sync {
    /// A fresh store whose database clock is fixed at a time of the factory's choosing,
    /// a whole number of seconds.
    async fn fresh(&self) -> Box<dyn Harness>;
}

/// A store under examination, and the hands to shake it with.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The store. The queues of a fresh store: none but those the store itself creates
    /// (`default`).
    fn store(&self) -> Arc<dyn Store>;

    /// The same database through a second, independent instance: another process, in effect.
    async fn another(&self) -> Arc<dyn Store>;

    /// The same database through an instance whose lists look at so many messages or attempts for
    /// one page and no more, where the store has such a bound.
    async fn another_with_short_walks(&self, _walk_max: u32) -> Arc<dyn Store> {
        self.another().await
    }

    /// What the database's clock shows.
    async fn now(&self) -> Timestamp;

    /// Moves the database's clock; backwards too.
    async fn advance(&self, by: SignedDuration);

    /// Makes the next departure take all that may leave, also where the store would let some of it wait for
    /// more, to save work.
    async fn hurry_departures(&self) {}

    /// Enqueues inside a caller's transaction and commits it.
    async fn enqueue_in_transaction(&self, messages: &[NewMessage]) -> Result<()>;

    /// Enqueues inside a caller's transaction and rolls it back.
    async fn enqueue_and_roll_back(&self, messages: &[NewMessage]) -> Result<()>;

    /// Remembers the current database, like an asynchronous standby that falls behind from
    /// here on. `false` where the harness cannot; cases that need it then pass untried. Connections
    /// made before may be cut: `store` answers with one that works.
    async fn fork_standby(&self) -> bool {
        false
    }

    /// Loses everything since `fork_standby`: from now on `store` is the standby.
    async fn fail_over(&self) {}
}
