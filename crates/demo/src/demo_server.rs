//! Servers of the demo's own on this machine, and an address where there is none.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use axum::Router;
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinHandle,
};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A server that ends with this value.
#[derive(Debug)]
pub(crate) struct DemoServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl DemoServer {
    pub(crate) async fn start(router: Router) -> Result<Self> {
        let listener = TcpListener::bind(ANY_PORT).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("a server of the demo failed: {error}");
            }
        });
        Ok(Self { address, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A port that is taken and not listened on: connections are refused, and no other program can move
/// in.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl ReservedPort {
    pub(crate) fn new() -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(ANY_PORT)?;
        Ok(Self {
            address: socket.local_addr()?,
            _socket: socket,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}
