//! One connection, from handshake to last answer.

use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::timeout,
};

use super::{Peer, patience::Patient, tls};

/// Enough for any client that is not being difficult.
const HEADER_BYTES_MAX: usize = 64 * 1024;

pub(super) struct Connection {
    pub(super) router: Router,
    pub(super) peer: Peer,
    pub(super) header_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub(super) write_timeout: Duration,
    pub(super) watcher: Watcher,
    /// One of the connections allowed at once, given back when this one ends.
    pub(super) permit: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) async fn run(self, stream: TcpStream, tls: Option<tls::Acceptor>) {
        // Answers are small and written whole: waiting for more to send only adds latency.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Some(tls) = tls else {
            return self.speak(stream).await;
        };
        match timeout(self.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.speak(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, peer = %self.peer.0, "no TLS handshake"),
            Err(_) => tracing::debug!(peer = %self.peer.0, "TLS handshake took too long"),
        }
    }

    async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let stream = Patient::new(stream, self.write_timeout);
        let service = TowerToHyperService::new(self.router.layer(Extension(self.peer)));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_buf_size(HEADER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        // How a connection ends is the client's business; what it asked has been answered or
        // logged by then.
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!(%error, peer = %self.peer.0, "connection ended");
        }
        drop(self.permit);
    }
}
