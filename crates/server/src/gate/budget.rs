//! Bytes that requests keep in memory: of all clients together, and of each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::problem::{Problem, codes};

/// Clients remembered before those that keep nothing are forgotten.
const CLIENTS_KEPT: usize = 1_000;

/// A number of bytes, of which one client gets half at most.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The setting that limits it.
    setting: &'static str,
    bytes_max: usize,
    client_max: usize,
    /// How long a request waits for bytes that others keep.
    within: Duration,
    all: Arc<Semaphore>,
    clients: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A part of a budget; released when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    client: Arc<Semaphore>,
    /// Of the client's part, and of all bytes.
    held: [Option<OwnedSemaphorePermit>; 2],
}

impl Budget {
    /// `request_max` is what one request may need: it fits even where half of the bytes does not
    /// suffice.
    pub(crate) fn new(
        (setting, bytes_max): (&'static str, usize),
        request_max: usize,
        within: Duration,
    ) -> Arc<Self> {
        let bytes_max = bytes_max.max(request_max);
        let bytes_max = bytes_max.min(u32::MAX as usize);
        Arc::new(Self {
            setting,
            bytes_max,
            client_max: (bytes_max / 2).max(request_max).min(bytes_max),
            within,
            all: Arc::new(Semaphore::new(bytes_max)),
            clients: Mutex::default(),
        })
    }

    /// No bytes yet, for a request of this client.
    pub(crate) fn empty(self: &Arc<Self>, client: &str) -> Reservation {
        let mut clients = self
            .clients
            .lock()
            .expect("invariant: no panic under this lock");
        if clients.len() >= CLIENTS_KEPT {
            clients.retain(|_, client| Arc::strong_count(client) > 1);
        }
        let of_client = clients
            .entry(client.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(self.client_max)));
        Reservation {
            client: Arc::clone(of_client),
            budget: Arc::clone(self),
            held: [None, None],
        }
    }

    /// `requested` bytes or half of what is left, but at least `least`: many small parts at once
    /// rather than one large part after the other.
    pub(crate) async fn reserve_some(
        self: &Arc<Self>,
        client: &str,
        (least, requested): (usize, usize),
    ) -> Result<Reservation, Problem> {
        let mut reserved = self.empty(client);
        let left = self.all.available_permits();
        let left = left.min(reserved.client.available_permits());
        let bytes = requested.min((left / 2).max(least)).min(self.client_max);
        reserved.grow(bytes).await?;
        Ok(reserved)
    }

    fn refuse(&self, whose: &str, bytes: usize) -> Problem {
        let setting = self.setting;
        let detail = format!(
            "{whose} take {bytes} bytes, as many as server.{setting} allows; nothing was done"
        );
        overloaded(detail)
    }
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        let [_, held] = &self.held;
        held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Makes it at least so many bytes, as soon as others have released enough.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes());
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let budget = &self.budget;
        let ends = Instant::now() + budget.within;
        // The client's own part first: its requests wait for each other, not in the way of others.
        let of_client = timeout_at(ends, Arc::clone(&self.client).acquire_many_owned(more));
        let of_client = of_client.await.map_err(|_| {
            let whose = "other requests of this client";
            budget.refuse(whose, budget.client_max)
        })?;
        let of_all = timeout_at(ends, Arc::clone(&budget.all).acquire_many_owned(more));
        let of_all = of_all
            .await
            .map_err(|_| budget.refuse("other requests", budget.bytes_max))?;
        for (held, more) in self.held.iter_mut().zip([of_client, of_all]) {
            let more = more.expect("invariant: the semaphore is never closed");
            match held {
                Some(held) => held.merge(more),
                None => *held = Some(more),
            }
        }
        Ok(())
    }

    /// Releases what is beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes().saturating_sub(bytes);
        for held in self.held.iter_mut().flatten() {
            drop(held.split(less));
        }
    }
}

pub(crate) fn overloaded(detail: String) -> Problem {
    Problem::new(codes::OVERLOADED, detail)
        .with("outcome", "not_done")
        .retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(1);

    async fn reserve(
        budget: &Arc<Budget>,
        client: &str,
        bytes: usize,
    ) -> Result<Reservation, String> {
        let mut reserved = budget.empty(client);
        match reserved.grow(bytes).await {
            Ok(()) => Ok(reserved),
            Err(problem) => Err(problem.detail),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_gets_half_and_the_others_the_rest() {
        let budget = Budget::new(("bodies_max_bytes", 100), 10, WITHIN);
        let mut first = reserve(&budget, "a", 50).await.unwrap();
        let refusal = reserve(&budget, "a", 1).await.unwrap_err();
        assert!(refusal.contains("this client"), "{refusal}");
        let second = reserve(&budget, "b", 50).await.unwrap();
        let refusal = reserve(&budget, "c", 1).await.unwrap_err();
        assert!(
            refusal.contains("100 bytes") && refusal.contains("bodies_max_bytes"),
            "{refusal}"
        );
        first.shrink(20);
        assert_eq!(first.bytes(), 20);
        let third = reserve(&budget, "c", 30).await.unwrap();
        drop((first, second, third));
        assert_eq!(budget.all.available_permits(), 100);
        reserve(&budget, "a", 50).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_gets_released_memory() {
        let budget = Budget::new(("bodies_max_bytes", 100), 100, WITHIN);
        let held = reserve(&budget, "a", 80).await.unwrap();
        let waiting = reserve(&budget, "b", 60);
        let given_back = async {
            tokio::time::advance(WITHIN / 2).await;
            drop(held);
        };
        let (waited, ()) = tokio::join!(waiting, given_back);
        assert_eq!(waited.unwrap().bytes(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn some_is_half_of_what_is_left() {
        let budget = Budget::new(("claims_max_bytes", 200), 10, WITHIN);
        let mut held = Vec::new();
        for bytes in [50, 25, 12, 10, 3] {
            let reserved = budget.reserve_some("a", (10.min(bytes), 90)).await;
            held.push(reserved.unwrap());
            assert_eq!(held.last().unwrap().bytes(), bytes);
        }
        assert!(budget.reserve_some("a", (1, 90)).await.is_err());
    }

    #[tokio::test]
    async fn many_clients_do_not_fill_the_memory() {
        let budget = Budget::new(("bodies_max_bytes", 100), 10, WITHIN);
        let held = reserve(&budget, "held", 1).await.unwrap();
        for client in 0..CLIENTS_KEPT * 2 {
            drop(budget.empty(&client.to_string()));
        }
        let clients = budget.clients.lock().unwrap();
        assert!(clients.len() <= CLIENTS_KEPT);
        assert!(Arc::ptr_eq(&clients["held"], &held.client));
    }
}
