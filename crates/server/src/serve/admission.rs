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

/// Connections beyond the limit. Their requests are worked on in the place of a connection that has
/// none; where all have one, they answer probes and refuse everything else.
const EXTRA_MAX: usize = 16;
/// A connection that has had no request for this long may be closed for another that has none
/// either. Whoever is about to send one has done so by then.
const IDLE_MIN: Duration = Duration::from_millis(100);
/// How long it takes to close as many connections as may be open, for others without a request. A
/// client that opens another as soon as one is closed would keep the processors busy otherwise.
const CHURN_MIN: Duration = Duration::from_millis(250);
/// The same for each connection beyond the limit that is closed for a probe in the queue behind it.
const EXTRA_CHURN_MIN: Duration = Duration::from_micros(250);
/// How much of that may be made up for.
const CHURN_BURST: Duration = Duration::from_millis(10);
/// When to look again though nothing changed.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

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
    by_address: HashMap<IpAddr, usize>,
    /// Those that wait for a request: first those that never had one, then by how long they wait.
    idle: BTreeMap<Place, Idle>,
    idle_count: u64,
    /// When the next may be closed for one without a request, and beyond the limit.
    close_at: Option<Instant>,
    close_extra_at: Option<Instant>,
}

/// Whether a connection has had a request, and a number that grows.
type Place = (bool, u64);

#[derive(Debug)]
struct Idle {
    since: Instant,
    address: IpAddr,
    close: Arc<Notify>,
}

/// What becomes of a new connection.
enum Decision {
    Admit { is_extra: bool },
    Refuse,
    WaitUntil(Instant),
}

/// One open connection.
#[derive(Debug)]
pub(super) struct Ticket {
    connections: Arc<Connections>,
    address: IpAddr,
    /// Where it stands among those that wait for a request; none while it works on one.
    place: Mutex<Option<Place>>,
    close: Arc<Notify>,
    /// Whether it is beyond the limit.
    is_extra: AtomicBool,
}

/// A request being worked on; its connection is not closed for another.
#[derive(Debug)]
pub(super) struct Busy(Arc<Ticket>);

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
                Decision::Admit { is_extra } => return Some(self.enter(address, is_extra)),
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
        self.lock().close_idle(Instant::now());
    }

    fn decide(&self, address: IpAddr) -> Decision {
        let mut state = self.lock();
        let from_there = state.by_address.get(&address).copied().unwrap_or(0);
        // A proxy on this machine stands for everybody behind it.
        let is_limited = self.per_address_max > 0 && !address.is_loopback();
        if is_limited && from_there >= self.per_address_max && !state.close_idle_of(address) {
            return Decision::Refuse;
        }
        let now = Instant::now();
        let has_room = state.open < self.open_max || state.close_in_time(now, self.open_max);
        if has_room || state.open < self.open_max + EXTRA_MAX {
            return Decision::Admit {
                is_extra: !has_room,
            };
        }
        // All have a request but those beyond the limit. What waits behind them may be a probe.
        let extra_at = state.close_extra_at.unwrap_or(now);
        if extra_at <= now && state.close_idle(now) {
            state.close_extra_at = Some(paced(extra_at, now, EXTRA_CHURN_MIN));
            return Decision::Admit { is_extra: true };
        }
        Decision::WaitUntil(if state.idle.is_empty() {
            now + LOOK_AGAIN
        } else {
            extra_at
        })
    }

    fn enter(self: &Arc<Self>, address: IpAddr, is_extra: bool) -> Arc<Ticket> {
        let mut state = self.lock();
        state.open += 1;
        *state.by_address.entry(address).or_default() += 1;
        drop(state);
        let ticket = Arc::new(Ticket {
            connections: Arc::clone(self),
            address,
            place: Mutex::default(),
            close: Arc::default(),
            is_extra: AtomicBool::new(is_extra),
        });
        ticket.wait_for_request(false);
        ticket
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Which waits longest of those that never had a request, and of those that had one.
    fn first_idle(&self) -> impl Iterator<Item = (&Place, &Idle)> {
        let fresh = self.idle.range(..(true, 0)).next();
        let kept = self.idle.range((true, 0)..).next();
        fresh.into_iter().chain(kept)
    }

    /// Closes the first connection that waits for a request since then or longer; whether there
    /// was one.
    fn close_idle(&mut self, since: Instant) -> bool {
        let found = self.first_idle().find(|(_, idle)| idle.since <= since);
        let Some(place) = found.map(|(place, _)| *place) else {
            return false;
        };
        let closed = self.idle.remove(&place);
        closed.inspect(|idle| idle.close.notify_one()).is_some()
    }

    /// The same for one that has waited long enough, and not too many at a time.
    fn close_in_time(&mut self, now: Instant, open_max: usize) -> bool {
        let at = self.close_at.unwrap_or(now);
        let since = now.checked_sub(IDLE_MIN);
        if at > now || !since.is_some_and(|since| self.close_idle(since)) {
            return false;
        }
        let interval = CHURN_MIN / u32::try_from(open_max).unwrap_or(u32::MAX);
        self.close_at = Some(paced(at, now, interval));
        true
    }

    /// Closes a connection of this address that waits for a request; whether there was one.
    fn close_idle_of(&mut self, address: IpAddr) -> bool {
        let found = self.idle.iter().find(|(_, idle)| idle.address == address);
        let place = found.map(|(place, _)| *place);
        let closed = place.and_then(|place| self.idle.remove(&place));
        closed.inspect(|idle| idle.close.notify_one()).is_some()
    }
}

/// When the next may be closed after one that could have been at `at`.
fn paced(at: Instant, now: Instant, interval: Duration) -> Instant {
    let made_up = now.checked_sub(CHURN_BURST).unwrap_or(now);
    at.max(made_up) + interval
}

impl Ticket {
    /// Until the connection is to make room for another.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }

    /// A request came. Beyond the limit, a connection without one is closed for it.
    pub(super) fn begin(self: &Arc<Self>) -> Busy {
        self.take_room();
        Busy(Arc::clone(self))
    }

    /// A request came of somebody who is not known yet. It may be closed for another one.
    pub(super) fn begin_unknown(&self) {
        self.take_room();
        self.wait_for_request(true);
    }

    fn take_room(&self) {
        let place = self.place().take();
        let mut state = self.connections.lock();
        if let Some(place) = place {
            state.idle.remove(&place);
        }
        if self.is_extra() && state.close_idle(Instant::now()) {
            self.is_extra.store(false, Relaxed);
        }
    }

    /// Whether it is beyond the limit, and only probes are answered.
    pub(super) fn is_extra(&self) -> bool {
        self.is_extra.load(Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.place().is_none()
    }

    fn wait_for_request(&self, had_one: bool) {
        let mut state = self.connections.lock();
        state.idle_count += 1;
        let place = (had_one, state.idle_count);
        let idle = Idle {
            since: Instant::now(),
            address: self.address,
            close: Arc::clone(&self.close),
        };
        state.idle.insert(place, idle);
        drop(state);
        *self.place() = Some(place);
        self.connections.changed.notify_waiters();
    }

    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let place = self.place().take();
        let mut state = self.connections.lock();
        state.open -= 1;
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

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.wait_for_request(true);
    }
}

/// Whom an address stands for: with IPv6, a whole network.
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
        let third = admit(&connections, "10.0.0.1").await;
        first.closed().await;
        let network = admit(&connections, "2001:db8::1").await;
        let same = admit(&connections, "2001:db8::2").await;
        let requests = (network.begin(), same.begin());
        assert!(connections.admit(address("2001:db8::3")).await.is_none());
        drop((requests, network, same));
        let again = (
            admit(&connections, "2001:db8::3").await,
            admit(&connections, "2001:db8::4").await,
        );
        let requests = (again.0.begin(), again.1.begin());
        assert!(connections.admit(address("2001:db8::5")).await.is_none());
        drop((requests, again, first, second, third));
        let left = connections.lock().by_address.len();
        assert_eq!(left, 0, "nothing is kept of an address without connections");
        let mut local = Vec::new();
        for _ in 0..10 {
            let ticket = admit(&connections, "127.0.0.1").await;
            local.push((ticket.begin(), ticket));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_never_sent_a_request_makes_room_first() {
        let connections = Connections::new(3, 0);
        let kept_alive = admit(&connections, "10.0.0.1").await;
        drop(kept_alive.begin());
        let busy = admit(&connections, "10.0.0.2").await;
        let _request = busy.begin();
        let silent = admit(&connections, "10.0.0.3").await;
        let extra = admit(&connections, "10.0.0.4").await;
        assert!(
            extra.is_extra(),
            "the others may be about to send a request"
        );
        tokio::time::advance(IDLE_MIN).await;
        let fifth = admit(&connections, "10.0.0.5").await;
        assert!(!fifth.is_extra());
        silent.closed().await;
        drop((silent, extra));
        tokio::time::advance(CHURN_MIN).await;
        let sixth = admit(&connections, "10.0.0.6").await;
        fifth.closed().await;
        drop(fifth);
        tokio::time::advance(CHURN_MIN / 3).await;
        let seventh = admit(&connections, "10.0.0.7").await;
        kept_alive.closed().await;
        drop(kept_alive);
        let extra = admit(&connections, "10.0.0.8").await;
        let _request = extra.begin();
        assert!(
            !extra.is_extra(),
            "a request outranks any connection without one"
        );
        sixth.closed().await;
        assert!(!seventh.is_busy(), "still there");
    }

    /// A client that opens another connection as soon as one is closed keeps no processor busy, also
    /// not after a pause.
    #[tokio::test(start_paused = true)]
    async fn connections_are_closed_for_others_without_a_request_at_a_pace() {
        let connections = Connections::new(100, 0);
        let mut silent = Vec::new();
        for _ in 0..100 {
            silent.push(admit(&connections, "10.0.0.1").await);
        }
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(10)).await;
            let mut room = 0;
            let mut extra = Vec::new();
            while extra.len() < EXTRA_MAX && room < 100 {
                let ticket = admit(&connections, "10.0.0.1").await;
                match ticket.is_extra() {
                    true => extra.push(ticket),
                    false => {
                        room += 1;
                        // The one that was closed for it is gone.
                        silent.remove(0);
                        silent.push(ticket);
                    }
                }
            }
            assert!((1..=6).contains(&room), "{room} at once");
        }
    }

    /// A stream of connections that send nothing takes all that are beyond the limit.
    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_a_probe_does_not_wait_behind_the_silent() {
        let connections = Connections::new(1, 0);
        let busy = admit(&connections, "10.0.0.1").await;
        let _request = busy.begin();
        let mut silent = Vec::new();
        for _ in 0..EXTRA_MAX {
            silent.push(admit(&connections, "10.0.0.2").await);
        }
        let started = Instant::now();
        for _ in 0..100 {
            silent.push(admit(&connections, "10.0.0.2").await);
        }
        let took = started.elapsed();
        let paced = EXTRA_CHURN_MIN * 100 - CHURN_BURST;
        assert!((paced..IDLE_MIN).contains(&took), "{took:?}");
        silent[0].closed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_of_somebody_unknown_makes_room_for_another() {
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
    async fn beyond_the_limit_there_is_room_for_probes_and_then_for_nobody() {
        let connections = Connections::new(1, 0);
        let mut open = Vec::new();
        for _ in 0..=EXTRA_MAX {
            let ticket = admit(&connections, "10.0.0.1").await;
            open.push((ticket.begin(), ticket));
        }
        let extra = open.iter().filter(|(_, ticket)| ticket.is_extra()).count();
        assert_eq!(extra, EXTRA_MAX);
        let waiting = connections.admit(address("10.0.0.1"));
        let waiting = tokio::time::timeout(LOOK_AGAIN * 2, waiting);
        assert!(waiting.await.is_err());
        open.clear();
        assert!(!admit(&connections, "10.0.0.1").await.is_extra());
    }
}
