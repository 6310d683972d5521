//! One connection through the proxy.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{ProxyMode, Traffic};

const BUFFER_BYTES: usize = 16 * 1024;

/// A pair of sockets, counted as open until dropped.
pub(super) struct Link {
    /// The number of cuts at the time it was accepted.
    cut_count: u64,
    /// The number of times connections were stranded by then.
    strand_count: u64,
    weather: watch::Sender<ProxyMode>,
    traffic: watch::Sender<Traffic>,
}

#[derive(Clone, Copy)]
enum Direction {
    Requests,
    Replies,
}

impl Link {
    pub(super) fn new(
        cut_count: u64,
        weather: watch::Sender<ProxyMode>,
        traffic: watch::Sender<Traffic>,
    ) -> Self {
        traffic.send_modify(|traffic| {
            traffic.open_count += 1;
            traffic.accepted_count += 1;
        });
        let strand_count = weather.borrow().strand_count;
        Self {
            cut_count,
            strand_count,
            weather,
            traffic,
        }
    }

    /// Forwards until both sides have finished, one of them fails, or the network is cut.
    pub(super) async fn run(self, client: TcpStream, server: TcpStream) {
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let mut weather = self.weather.subscribe();
        tokio::select! {
            _ = weather.wait_for(|weather| weather.cut_count != self.cut_count) => {}
            _ = async {
                tokio::try_join!(
                    self.forward(Direction::Requests, from_client, to_server),
                    self.forward(Direction::Replies, from_server, to_client),
                )
            } => {}
        }
    }

    async fn forward(
        &self,
        direction: Direction,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
    ) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = from.read(&mut buffer).await?;
            self.hold(direction, count).await;
            if count == 0 {
                return to.shutdown().await;
            }
            to.write_all(&buffer[..count]).await?;
        }
    }

    /// Returns when `count` bytes may be passed on. The end of a stream is held up like its data.
    async fn hold(&self, direction: Direction, count: usize) {
        let mut weather = self.weather.subscribe();
        let delay = weather.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let is_withheld = |weather: &ProxyMode| {
            weather.strand_count != self.strand_count || direction.is_withheld(weather)
        };
        if is_withheld(&weather.borrow()) {
            let _withheld = WithheldBytes::new(&self.traffic, direction, count);
            // The link holds a sender, so waiting ends only by the condition.
            let passed = weather.wait_for(|weather| !is_withheld(weather)).await;
            debug_assert!(passed.is_ok());
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.traffic.send_modify(|traffic| traffic.open_count -= 1);
    }
}

impl Direction {
    fn is_withheld(self, weather: &ProxyMode) -> bool {
        match self {
            Direction::Requests => weather.requests_withheld,
            Direction::Replies => weather.replies_withheld,
        }
    }

    fn withheld_bytes(self, traffic: &mut Traffic) -> &mut usize {
        match self {
            Direction::Requests => &mut traffic.withheld_request_bytes,
            Direction::Replies => &mut traffic.withheld_reply_bytes,
        }
    }
}

/// Bytes counted as withheld until delivered, or until their connection is gone.
struct WithheldBytes<'a> {
    traffic: &'a watch::Sender<Traffic>,
    direction: Direction,
    count: usize,
}

impl<'a> WithheldBytes<'a> {
    fn new(traffic: &'a watch::Sender<Traffic>, direction: Direction, count: usize) -> Self {
        traffic.send_modify(|traffic| *direction.withheld_bytes(traffic) += count);
        Self {
            traffic,
            direction,
            count,
        }
    }
}

impl Drop for WithheldBytes<'_> {
    fn drop(&mut self) {
        self.traffic
            .send_modify(|traffic| *self.direction.withheld_bytes(traffic) -= self.count);
    }
}
