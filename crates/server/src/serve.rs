//! Accepting connections, with limits on how slow a client may be.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use self::{
    admission::{Connections, Ticket},
    connection::Connection,
};
use crate::{
    exposure::{ExposureError, check_exposure},
    extension::Extension,
    options::ServerOptions,
};

mod admission;
mod connection;
mod files;
mod tls;

/// After a failed accept, which mostly means too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that the system keeps until they are accepted; it may allow less (`somaxconn`). A
/// client that finds no room there tries again after a second.
const BACKLOG: u32 = 4_096;
/// What the system keeps of one connection that was not read yet. Left to itself it takes several
/// megabytes of each, and of bodies that are refused.
const UNREAD_BYTES_MAX: u32 = 256 * 1024;

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The options would expose the server, or cannot work.
    #[error(transparent)]
    Exposed(#[from] ExposureError),
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {source}{}", match source.kind() {
        io::ErrorKind::AddrInUse => "; another process listens there: end it, or choose another port",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege: choose another port",
        io::ErrorKind::AddrNotAvailable => "; this machine does not have the address",
        _ => "",
    })]
    Bind {
        /// Where.
        listen: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("server.{setting} = {:?}: {why}", path.display().to_string())]
    Tls {
        /// Which setting names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There would be none left for connections.
    #[error(
        "this process may open {files} files, and the server needs {needed}: raise the limit \
         (ulimit -n, LimitNOFILE)"
    )]
    TooFewFiles {
        /// How many it may open.
        files: usize,
        /// How many it needs at least.
        needed: usize,
    },
}

/// The peer of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// A server that listens but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<tls::Acceptor>,
    connections_max: usize,
    options: ServerOptions,
    extensions: Arc<Vec<Arc<dyn Extension>>>,
}

impl Server {
    /// Checks the options, reads the certificate, and listens.
    pub async fn bind(options: &ServerOptions) -> Result<Self, StartError> {
        check_exposure(options)?;
        let tls = tls::acceptor(options)?;
        let connections_max = files::connections_max(options)?;
        let listener = listen(options.listen);
        let listener = listener.map_err(|source| StartError::Bind {
            listen: options.listen,
            source,
        })?;
        Ok(Self {
            listener,
            tls,
            connections_max,
            options: options.clone(),
            extensions: Arc::default(),
        })
    }

    /// The same with apps, in whose error formats it answers what it has no connection left for.
    #[must_use]
    pub fn with_extensions(self, extensions: Vec<Arc<dyn Extension>>) -> Self {
        Self {
            extensions: Arc::new(extensions),
            ..self
        }
    }

    /// Where it listens; has the port when the options left the choice to the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// `http://` or `https://` and where it listens.
    pub fn url(&self) -> io::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.local_addr()?))
    }

    /// Answers until `shutdown` is ready; then accepts no more, lets requests under way end within
    /// the grace period, and returns.
    pub async fn serve(self, router: Router, shutdown: impl Future<Output = ()>) {
        let connections = Connections::new(
            self.connections_max,
            self.options.connections_per_address_max,
        );
        let graceful = GracefulShutdown::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let (stream, peer, ticket) = tokio::select! {
                accepted = self.accept(&connections) => accepted,
                () = &mut shutdown => break,
            };
            let connection = Connection {
                router: router.clone(),
                extensions: Arc::clone(&self.extensions),
                peer: Peer(peer),
                header_timeout: self.options.header_timeout(),
                write_timeout: self.options.body_timeout(),
                watcher: graceful.watcher(),
                ticket,
            };
            tokio::spawn(connection.run(stream, self.tls.clone()));
        }
        drop(self.listener);
        let grace = self.options.shutdown_grace();
        if timeout(grace, graceful.shutdown()).await.is_err() {
            tracing::warn!(
                grace_ms = grace.as_millis() as u64,
                "some requests did not end within the grace period; their connections are cut"
            );
        }
    }

    async fn accept(&self, connections: &Arc<Connections>) -> (TcpStream, SocketAddr, Arc<Ticket>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => match connections.admit(peer.ip()).await {
                    Some(ticket) => return (stream, peer, ticket),
                    None => tracing::debug!(%peer, "too many connections from this address"),
                },
                Err(error) if is_clients_fault(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    connections.make_room();
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A server that is started again does not wait for connections of the one before.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_recv_buffer_size(UNREAD_BYTES_MAX)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The client hung up before it was accepted: no reason to pause.
fn is_clients_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}
