//! A plain HTTP client: one request, one connection.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status line and the headers.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// A header by its lower-case name.
    pub(crate) fn header(&self, wanted: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.next().map(|(_, value)| value)
    }
}

pub(crate) async fn get(at: SocketAddr, path: &str) -> Answer {
    try_get(at, path).await.unwrap()
}

/// For a server that may not exist.
pub(crate) async fn try_get(at: SocketAddr, path: &str) -> std::io::Result<Answer> {
    send(at, &format!("GET {path} HTTP/1.1\r\n"), "").await
}

pub(crate) async fn post(at: SocketAddr, path: &str, body: &str) -> Answer {
    try_post(at, path, body).await.unwrap()
}

/// For a server that may not answer.
pub(crate) async fn try_post(at: SocketAddr, path: &str, body: &str) -> std::io::Result<Answer> {
    let head = format!(
        "POST {path} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    send(at, &head, body).await
}

pub(crate) async fn send(at: SocketAddr, head: &str, body: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(at).await?;
    let host = if head.contains("\r\nhost: ") {
        String::new()
    } else {
        format!("host: {at}\r\n")
    };
    let request = format!("{head}{host}connection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(|| std::io::Error::other(format!("no answer: {head:?}")))?,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}
