//! Servers of the demo's own on this machine, and an address where there is none.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinHandle,
};

use crate::failure::Failure;

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server that ends with this value.
#[derive(Debug)]
pub(super) struct FarSide {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl FarSide {
    pub(super) async fn start(router: Router) -> Result<Self, Failure> {
        let listener = TcpListener::bind(ANY_PORT).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!("the far side of the demo failed: {error}");
            }
        });
        Ok(Self { address, task })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for FarSide {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A port that is taken and not listened on: whoever connects is refused, and nobody else can move
/// in.
#[derive(Debug)]
pub(super) struct Reserved {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl Reserved {
    pub(super) fn new() -> Result<Self, Failure> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(ANY_PORT)?;
        Ok(Self {
            address: socket.local_addr()?,
            _socket: socket,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}
