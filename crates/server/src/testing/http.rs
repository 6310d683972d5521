//! A client that writes HTTP by hand, so that it can break the protocol.

use std::{net::SocketAddr, time::Duration};

use axum::Router;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

use crate::{Server, ServerOptions};

/// A server on a port of its own.
pub struct TestServer {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl TestServer {
    pub async fn start(router: Router, options: &ServerOptions) -> Self {
        let options = ServerOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..options.clone()
        };
        let server = Server::bind(&options).await.unwrap();
        let address = server.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.serve(router, async {
            stopped.await.unwrap_or_default();
        }));
        Self {
            address,
            stop: Some(stop),
            task,
        }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Signals the server to stop, without waiting for it.
    pub fn signal_stop(&mut self) {
        drop(self.stop.take());
    }

    pub async fn ends_within(&mut self, time: Duration) -> bool {
        timeout(time, &mut self.task).await.is_ok()
    }

    pub async fn stopped(mut self) {
        self.signal_stop();
        self.task.await.unwrap();
    }
}

/// A request with a JSON body.
pub fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends text and reads until the server closes the connection.
pub async fn send(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    rest(stream).await
}

/// What is left to read until the server closes the connection.
pub async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too.
    stream.read_to_end(&mut bytes).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One answer, its headers and its body, on a connection that stays open.
pub async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    loop {
        let read = stream.read(&mut buffer).await.unwrap();
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert_ne!(read, 0, "closed early: {text}");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        if body.len() >= length || read == 0 {
            return text;
        }
    }
}
