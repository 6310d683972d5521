//! Which connections are open, and which of them makes room for another.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Connections beyond the limit: one for so many within it, and a few at least. A request on one of
/// them takes the place of a connection that has none; where all have one, it is answered if it is a
/// probe. To keep idle connections costs less than to close them for others that follow at once.
const EXTRA_PART: usize = 2;
const EXTRA_MIN: usize = 16;
/// How often a connection may be closed for another one that has no request either. What waits
/// behind it may be a probe, and a client that opens another as soon as one is closed must not keep
/// the processors busy.
const CLOSE_EVERY: Duration = Duration::from_micros(250);
/// How many of these closings may be saved up.
const CLOSE_BURST: Duration = Duration::from_millis(10);
/// When to look again though nothing changed.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// How many connections may be open where so many are allowed, those beyond the limit included.
pub(super) fn at_once(open_max: usize) -> usize {
    open_max + (open_max / EXTRA_PART).max(EXTRA_MIN)
}

/// How many can be allowed where so many may be open.
pub(super) fn within(at_once: usize) -> usize {
    let part = at_once * EXTRA_PART / (EXTRA_PART + 1);
    part.min(at_once.saturating_sub(EXTRA_MIN))
}

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    open_max: usize,
    /// From one address; 0 for no limit.
    per_address_max: usize,
    state: Mutex<State>,
    /// A connection has ended, or waits for a request.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    /// Those within the limit.
    regular: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Those that wait for a request.
    idle: BTreeMap<IdleKey, IdleConnections>,
    idle_count: u64,
    /// When the next may be closed for one without a request.
    close_at: Option<Instant>,
}

/// Whether a connection is beyond the limit, whether it has had a request, and a number that grows.
type IdleKey = (bool, bool, u64);

#[derive(Debug)]
struct IdleConnections {
    address: IpAddr,
    status: Arc<Status>,
}

/// State of a connection that others may read and change.
#[derive(Debug)]
struct Status {
    close: Notify,
    /// Whether it is beyond the limit. Changed under the lock of [`State`] only.
    is_extra: AtomicBool,
}

/// The decision about a new connection.
enum Decision {
    Admit,
    Refuse,
    WaitUntil(Instant),
}

/// One open connection.
#[derive(Debug)]
pub(super) struct Ticket {
    connections: Arc<Connections>,
    address: IpAddr,
    /// Its position among those that wait for a request; none while it works on one.
    place: Mutex<Option<IdleKey>>,
    status: Arc<Status>,
}

/// A request being worked on; its connection is not closed for another.
#[derive(Debug)]
pub(super) struct RequestGuard(Arc<Ticket>);

impl Connections {
    pub(super) fn new(open_max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self {
            open_max,
            per_address_max,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Waits until there is room for a connection; none if its address has too many.
    pub(super) async fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Arc<Ticket>> {
        let address = source(peer);
        loop {
            let changed = self.changed.notified();
            let until = match self.decide(address) {
                Decision::Admit => return Some(self.enter(address)),
                Decision::Refuse => return None,
                Decision::WaitUntil(until) => until,
            };
            tokio::select! {
                () = changed => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// Closes the connection that has waited longest for a request.
    pub(super) fn make_room(&self) {
        self.lock().close_any();
    }

    fn decide(&self, address: IpAddr) -> Decision {
        let mut state = self.lock();
        let from_there = state.by_address.get(&address).copied().unwrap_or(0);
        // A proxy on this machine carries the connections of all its clients.
        let is_limited = self.per_address_max > 0 && !address.is_loopback();
        if is_limited && from_there >= self.per_address_max && !state.close_any_of(address) {
            return Decision::Refuse;
        }
        if state.open < at_once(self.open_max) {
            return Decision::Admit;
        }
        let now = Instant::now();
        let at = state.close_at.unwrap_or(now);
        if at <= now && state.close_any() {
            let made_up = now.checked_sub(CLOSE_BURST).unwrap_or(now);
            state.close_at = Some(at.max(made_up) + CLOSE_EVERY);
            return Decision::Admit;
        }
        Decision::WaitUntil(if state.idle.is_empty() {
            now + LOOK_AGAIN
        } else {
            at
        })
    }

    fn enter(self: &Arc<Self>, address: IpAddr) -> Arc<Ticket> {
        let mut state = self.lock();
        state.open += 1;
        *state.by_address.entry(address).or_default() += 1;
        let is_extra = !state.take_place(self.open_max);
        drop(state);
        let ticket = Arc::new(Ticket {
            connections: Arc::clone(self),
            address,
            place: Mutex::default(),
            status: Arc::new(Status {
                close: Notify::new(),
                is_extra: AtomicBool::new(is_extra),
            }),
        });
        ticket.wait_for_request(false);
        ticket
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A place within the limit, if there is one.
    fn take_place(&mut self, open_max: usize) -> bool {
        let is_free = self.regular < open_max;
        self.regular += usize::from(is_free);
        is_free
    }

    /// The connection that has waited longest, of those that never had a request first.
    fn oldest_idle(&self, is_extra: bool) -> Option<IdleKey> {
        [false, true].into_iter().find_map(|had_one| {
            let places = (is_extra, had_one, 0)..=(is_extra, had_one, u64::MAX);
            self.idle.range(places).next().map(|(place, _)| *place)
        })
    }

    /// Closes a connection that waits for a request; whether there was one.
    fn close_any(&mut self) -> bool {
        let oldest = [false, true].map(|is_extra| self.oldest_idle(is_extra));
        let oldest = oldest.into_iter().flatten();
        let oldest = oldest.min_by_key(|(_, had_one, number)| (*had_one, *number));
        self.close(oldest).is_some()
    }

    /// The same for one of this address.
    fn close_any_of(&mut self, address: IpAddr) -> bool {
        let found = self.idle.iter().find(|(_, idle)| idle.address == address);
        let found = found.map(|(place, _)| *place);
        self.close(found).is_some()
    }

    /// Closes a connection within the limit that waits for a request, and leaves its place to the
    /// caller; whether there was one.
    fn close_for_place(&mut self) -> bool {
        let oldest = self.oldest_idle(false);
        let closed = self.close(oldest);
        closed
            .inspect(|closed| closed.status.is_extra.store(true, Relaxed))
            .is_some()
    }

    fn close(&mut self, place: Option<IdleKey>) -> Option<IdleConnections> {
        let closed = place.and_then(|place| self.idle.remove(&place));
        closed.inspect(|idle| idle.status.close.notify_one())
    }
}

impl Ticket {
    /// Until the connection is to make room for another.
    pub(super) async fn closed(&self) {
        self.status.close.notified().await;
    }

    /// A request came. Beyond the limit, a connection without one is closed for it.
    pub(super) fn begin(self: &Arc<Self>) -> RequestGuard {
        self.take_place();
        RequestGuard(Arc::clone(self))
    }

    /// A request from an unauthenticated client came. It may be closed for another one.
    pub(super) fn begin_unknown(&self) {
        self.take_place();
        self.wait_for_request(true);
    }

    fn take_place(&self) {
        let place = self.place().take();
        let mut state = self.connections.lock();
        if let Some(place) = place {
            state.idle.remove(&place);
        }
        if self.is_extra()
            && (state.take_place(self.connections.open_max) || state.close_for_place())
        {
            self.status.is_extra.store(false, Relaxed);
        }
    }

    /// Whether it is beyond the limit, and only probes are answered.
    pub(super) fn is_extra(&self) -> bool {
        self.status.is_extra.load(Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.place().is_none()
    }

    fn wait_for_request(&self, had_one: bool) {
        let mut state = self.connections.lock();
        state.idle_count += 1;
        let place = (self.is_extra(), had_one, state.idle_count);
        let idle = IdleConnections {
            address: self.address,
            status: Arc::clone(&self.status),
        };
        state.idle.insert(place, idle);
        drop(state);
        *self.place() = Some(place);
        self.connections.changed.notify_waiters();
    }

    fn place(&self) -> MutexGuard<'_, Option<IdleKey>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let place = self.place().take();
        let mut state = self.connections.lock();
        state.open -= 1;
        if !self.is_extra() {
            state.regular -= 1;
        }
        if let Some(place) = place {
            state.idle.remove(&place);
        }
        let left = state.by_address.get_mut(&self.address).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            state.by_address.remove(&self.address);
        }
        drop(state);
        self.connections.changed.notify_waiters();
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.wait_for_request(true);
    }
}

/// The client that an address identifies: with IPv6, a whole network.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    async fn admit(connections: &Arc<Connections>, peer: &str) -> Arc<Ticket> {
        let ticket = connections.admit(address(peer)).await;
        ticket.expect("the address may have more")
    }

    #[tokio::test]
    async fn an_address_has_so_many_connections_and_this_machine_any_number() {
        let connections = Connections::new(100, 2);
        let first = admit(&connections, "10.0.0.1").await;
        let second = admit(&connections, "::ffff:10.0.0.1").await;
        let requests = (first.begin(), second.begin());
        assert!(connections.admit(address("10.0.0.1")).await.is_none());
        drop(requests);
        let _third = admit(&connections, "10.0.0.1").await;
        first.closed().await;
        let network = admit(&connections, "2001:db8::1").await;
        let same = admit(&connections, "2001:db8::2").await;
        let _requests = (network.begin(), same.begin());
        assert!(connections.admit(address("2001:db8::3")).await.is_none());
        let mut local = Vec::new();
        for _ in 0..10 {
            local.push(admit(&connections, "127.0.0.1").await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_request_are_closed_first() {
        let connections = Connections::new(3, 0);
        let kept_alive = admit(&connections, "10.0.0.1").await;
        drop(kept_alive.begin());
        let busy = admit(&connections, "10.0.0.2").await;
        let _request = busy.begin();
        let silent = admit(&connections, "10.0.0.3").await;
        let mut extra = Vec::new();
        for _ in 0..EXTRA_MIN {
            extra.push(admit(&connections, "10.0.0.4").await);
        }
        assert!(extra.iter().all(|extra| extra.is_extra()));
        let first = extra[0].begin();
        assert!(
            !extra[0].is_extra(),
            "a request outranks any connection without one"
        );
        silent.closed().await;
        drop(silent);
        extra.push(admit(&connections, "10.0.0.5").await);
        extra.push(admit(&connections, "10.0.0.6").await);
        extra[1].closed().await;
        assert!(!extra[1].is_busy(), "closed for one that has none either");
        let second = extra[2].begin();
        kept_alive.closed().await;
        let third = extra[3].begin();
        assert!(extra[3].is_extra(), "all others are at work");
        drop((first, second));
        let _fourth = extra[4].begin();
        assert!(!extra[4].is_extra());
        drop(third);
        assert!(!busy.is_extra());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_within_the_limit_is_taken_once() {
        let connections = Connections::new(2, 0);
        let first = admit(&connections, "10.0.0.1").await;
        let second = admit(&connections, "10.0.0.1").await;
        let third = admit(&connections, "10.0.0.1").await;
        let request = first.begin();
        let _third_request = third.begin();
        assert!(!third.is_extra());
        let late = second.begin();
        assert!(second.is_extra(), "its place went to the third");
        drop((late, second, request, first));
        let fourth = admit(&connections, "10.0.0.1").await;
        assert!(!fourth.is_extra());
        let fifth = admit(&connections, "10.0.0.1").await;
        let request = fourth.begin();
        let refused = fifth.begin();
        assert!(fifth.is_extra());
        drop((refused, request, fourth));
        let _request = fifth.begin();
        assert!(!fifth.is_extra(), "there is a place again");
    }

    /// A stream of connections that send nothing takes all that are beyond the limit.
    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_a_probe_does_not_wait_behind_the_silent() {
        let connections = Connections::new(1, 0);
        let busy = admit(&connections, "10.0.0.1").await;
        let _request = busy.begin();
        let mut silent = Vec::new();
        for _ in 0..EXTRA_MIN {
            silent.push(admit(&connections, "10.0.0.2").await);
        }
        let started = Instant::now();
        for _ in 0..200 {
            silent.push(admit(&connections, "10.0.0.2").await);
        }
        let took = started.elapsed();
        assert!(took >= CLOSE_EVERY * 100, "not too often: {took:?}");
        assert!(took < Duration::from_millis(100), "{took:?}");
        silent[0].closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_of_an_unknown_client_makes_room_for_another() {
        let connections = Connections::new(1, 0);
        let login = admit(&connections, "10.0.0.1").await;
        login.begin_unknown();
        assert!(!login.is_busy());
        let extra = admit(&connections, "10.0.0.2").await;
        let _request = extra.begin();
        assert!(!extra.is_extra());
        login.closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_only_probes_are_accepted_up_to_a_bound() {
        let connections = Connections::new(1, 0);
        let mut open = Vec::new();
        for _ in 0..=EXTRA_MIN {
            let ticket = admit(&connections, "10.0.0.1").await;
            open.push((ticket.begin(), ticket));
        }
        let extra = open.iter().filter(|(_, ticket)| ticket.is_extra()).count();
        assert_eq!(extra, EXTRA_MIN);
        let waiting = connections.admit(address("10.0.0.1"));
        let waiting = tokio::time::timeout(LOOK_AGAIN * 2, waiting);
        assert!(waiting.await.is_err());
        open.clear();
        assert!(!admit(&connections, "10.0.0.1").await.is_extra());
    }
}
