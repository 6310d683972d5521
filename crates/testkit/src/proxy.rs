//! A network that misbehaves on demand.

mod link;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use link::Link;

/// A TCP proxy on the loopback, through which a test reaches a server.
///
/// It starts out transparent. Bytes that it withholds are not lost: [`resume`](Self::resume)
/// delivers them in order, and [`cut`](Self::cut) throws them away together with their connections.
#[derive(Debug)]
pub struct ChaosProxy {
    address: SocketAddr,
    weather: watch::Sender<ProxyMode>,
    traffic: watch::Sender<Traffic>,
    /// Owns the listener and all connections; ended on drop.
    acceptor: JoinHandle<()>,
}

/// What the proxy does to connections at the moment.
#[derive(Debug, Clone, Default)]
struct ProxyMode {
    refusing: bool,
    /// How often the network was cut. A connection made before the latest cut must end, even if the
    /// network was restored before its task had a chance to look.
    cut_count: u64,
    /// How often connections were stranded; those made before the latest time stay unresponsive for ever.
    strand_count: u64,
    requests_withheld: bool,
    replies_withheld: bool,
    delay: Duration,
}

/// What has happened to connections so far.
#[derive(Debug, Clone, Default)]
struct Traffic {
    open_count: usize,
    accepted_count: usize,
    withheld_request_bytes: usize,
    withheld_reply_bytes: usize,
}

impl ChaosProxy {
    /// Starts a proxy that forwards to `target`.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("listen on the loopback");
        let address = listener.local_addr().expect("ask for the proxy's address");
        let (weather, traffic) = (watch::Sender::default(), watch::Sender::default());
        let acceptor = tokio::spawn(accept(listener, target, weather.clone(), traffic.clone()));
        Self {
            address,
            weather,
            traffic,
            acceptor,
        }
    }

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections and refuses new ones; returns when none is left.
    ///
    /// A refused connection is accepted and closed at once. Giving up the port instead would let
    /// another process of the test run take it before [`restore`](Self::restore).
    pub async fn cut(&self) {
        self.weather.send_modify(|weather| {
            weather.refusing = true;
            weather.cut_count += 1;
        });
        self.until(|traffic| traffic.open_count == 0).await;
    }

    /// Accepts connections again.
    pub fn restore(&self) {
        self.weather.send_modify(|weather| weather.refusing = false);
    }

    /// Makes all current connections unresponsive for ever, unless they are cut; new ones work. So it is
    /// after a failover, or when something in between forgot its connections.
    pub fn strand(&self) {
        self.weather
            .send_modify(|weather| weather.strand_count += 1);
    }

    /// Forwards requests, but withholds what the server answers from now on.
    pub fn swallow_replies(&self) {
        self.weather
            .send_modify(|weather| weather.replies_withheld = true);
    }

    /// Withholds what clients send from now on. The server does not learn either that a client has
    /// gone.
    pub fn swallow_requests(&self) {
        self.weather
            .send_modify(|weather| weather.requests_withheld = true);
    }

    /// Holds up every piece of data, in both directions, by `delay`.
    pub fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }

    /// Delivers what was withheld and forwards everything again without delay.
    pub fn resume(&self) {
        self.weather.send_modify(|weather| {
            weather.requests_withheld = false;
            weather.replies_withheld = false;
            weather.delay = Duration::ZERO;
        });
    }

    /// Returns once an answer of the server is being withheld: the server has done what it was
    /// asked, and the client cannot know.
    pub async fn reply_withheld(&self) {
        self.until(|traffic| traffic.withheld_reply_bytes > 0).await;
    }

    /// Returns once a request is being withheld: the client has sent it, and the server does not
    /// know.
    pub async fn request_withheld(&self) {
        self.until(|traffic| traffic.withheld_request_bytes > 0)
            .await;
    }

    /// How many connections are open.
    pub fn connection_count(&self) -> usize {
        self.traffic.borrow().open_count
    }

    /// How many connections were accepted since the start, without those refused.
    pub fn accepted_count(&self) -> usize {
        self.traffic.borrow().accepted_count
    }

    async fn until(&self, condition: impl FnMut(&Traffic) -> bool) {
        let mut traffic = self.traffic.subscribe();
        traffic
            .wait_for(condition)
            .await
            .expect("the proxy itself holds the sender");
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    weather: watch::Sender<ProxyMode>,
    traffic: watch::Sender<Traffic>,
) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    loop {
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((client, _)) = client else { continue };
        // A single look decides whether this connection is before or after a cut.
        let now = weather.borrow().clone();
        if !now.refusing {
            let link = Link::new(now.cut_count, weather.clone(), traffic.clone());
            connections.spawn(async move {
                // A target that refuses is shown to the client as a connection that closes.
                if let Ok(server) = TcpStream::connect(target).await {
                    link.run(client, server).await;
                }
            });
        }
    }
}
