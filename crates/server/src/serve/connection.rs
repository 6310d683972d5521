//! One connection, from handshake to last answer.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, header},
    response::Response,
};
use hyper::{body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::Watcher,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until, timeout},
};

use super::{
    Peer,
    admission::{RequestGuard, Ticket},
    tls,
};
use crate::{
    extension::Extension,
    holding::GuardedBody,
    problem::{Problem, codes},
    router::refused,
};

/// The request line and headers; more is answered with 431. Every connection may keep as much.
const HEADER_BYTES_MAX: usize = 16 * 1024;
/// What is read or written at a time.
const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// The sender of a request there is unauthenticated, and sends a body: its connection is not kept.
const UNKNOWN: [&str; 2] = ["/ui/login", "/ui/logout"];
/// What a connection beyond the limit answers where all others are at work.
const PROBES: [&str; 3] = ["/health", "/healthz", "/readyz"];

pub(super) struct Connection {
    pub(super) router: Router,
    pub(super) extensions: Arc<Vec<Arc<dyn Extension>>>,
    pub(super) peer: Peer,
    pub(super) header_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub(super) write_timeout: Duration,
    pub(super) watcher: Watcher,
    /// One of the connections allowed at once, released when this one ends.
    pub(super) ticket: Arc<Ticket>,
}

impl Connection {
    pub(super) async fn run(self, stream: TcpStream, tls: Option<tls::Acceptor>) {
        // Answers are small and written whole: waiting for more to send only adds latency.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let Some(tls) = tls else {
            return self.serve_http(stream).await;
        };
        let handshake = tokio::select! {
            handshake = timeout(self.header_timeout, tls.accept(stream)) => handshake,
            () = self.ticket.closed() => return,
        };
        match handshake {
            Ok(Ok(stream)) => self.serve_http(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, peer = %self.peer.0, "no TLS handshake"),
            Err(_) => tracing::debug!(peer = %self.peer.0, "TLS handshake took too long"),
        }
    }

    async fn serve_http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let stream = TimeoutStream::new(stream, self.write_timeout);
        let service = ConnectionService {
            router: TowerToHyperService::new(self.router),
            extensions: self.extensions,
            peer: self.peer,
            ticket: Arc::clone(&self.ticket),
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_header_size(HEADER_BYTES_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(self.watcher.watch(connection));
        loop {
            tokio::select! {
                // How a connection ends does not matter; its requests have been answered
                // or logged by then.
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, peer = %self.peer.0, "connection ended");
                    }
                    return;
                }
                // A request that came just now is answered all the same.
                () = self.ticket.closed() => if !self.ticket.is_busy() {
                    tracing::debug!(peer = %self.peer.0, "connection closed for another");
                    return;
                }
            }
        }
    }
}

/// The router, as one connection sees it.
struct ConnectionService {
    router: TowerToHyperService<Router>,
    extensions: Arc<Vec<Arc<dyn Extension>>>,
    peer: Peer,
    ticket: Arc<Ticket>,
}

impl Service<Request<Incoming>> for ConnectionService {
    /// Its connection works on a request until all of the answer was sent.
    type Response = Response<GuardedBody<Option<RequestGuard>>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.peer);
        let path = request.uri().path();
        let busy = if UNKNOWN.contains(&path) {
            self.ticket.begin_unknown();
            None
        } else {
            Some(self.ticket.begin())
        };
        let answer = if self.ticket.is_extra() && !PROBES.contains(&path) {
            Err(overloaded(&request, &self.extensions))
        } else {
            Ok(self.router.call(request))
        };
        Box::pin(async move {
            let response = match answer {
                Ok(answering) => answering.await?,
                Err(response) => *response,
            };
            Ok(response.map(|body| GuardedBody::new(body, busy)))
        })
    }
}

fn overloaded(request: &Request<Body>, extensions: &[Arc<dyn Extension>]) -> Box<Response> {
    let detail = "the server has reached server.connections_max; nothing was done";
    let problem = Problem::new(codes::OVERLOADED, detail)
        .with("outcome", "not_done")
        .retry_after(Duration::from_secs(1));
    let mut response = refused(request, extensions, problem);
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    Box::new(response)
}

/// A stream on which every write must make progress within a time.
///
/// hyper limits how slowly headers may come, the gate how slowly a body; without this, a client
/// that sends a request and never reads would keep its connection for ever.
struct TimeoutStream<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> TimeoutStream<S> {
    fn new(stream: S, limit: Duration) -> Self {
        Self {
            stream,
            limit,
            stalled: None,
        }
    }

    /// Passes an answer on, or fails once there has been none for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        answer: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if answer.is_ready() {
            self.stalled = None;
            return answer;
        }
        let limit = self.limit;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + limit)));
        ready!(stalled.as_mut().poll(context));
        let why = "the client does not read its answer";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, answer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let answer = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, answer)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let answer = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, answer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
