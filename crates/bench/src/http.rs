//! As much of HTTP/1.1 as the benchmark needs, on both sides: what it costs should be consign's cost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// The head of a request or an answer, and its body.
#[derive(Debug)]
pub(crate) struct HttpMessage {
    pub(crate) first_line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpMessage {
    /// A header's value, by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(known, _)| known == name)?;
        Some(value)
    }
}

/// Reads one request or answer; none when the other side has closed in between.
pub(crate) async fn receive(stream: &mut BufReader<TcpStream>) -> Result<Option<HttpMessage>> {
    let mut first_line = String::new();
    if stream.read_line(&mut first_line).await? == 0 {
        return Ok(None);
    }
    let mut received = HttpMessage {
        first_line: first_line.trim_end().to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim().to_owned();
        received.headers.push((name.to_ascii_lowercase(), value));
    }
    if received.header("transfer-encoding") == Some("chunked") {
        received.body = chunks(stream).await?;
        return Ok(Some(received));
    }
    let length = received.header("content-length").map_or(Ok(0), str::parse);
    received.body = vec![0; length.context("a length that is no number")?];
    stream.read_exact(&mut received.body).await?;
    Ok(Some(received))
}

/// A body in pieces, each with its length before it.
async fn chunks(stream: &mut BufReader<TcpStream>) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let length = usize::from_str_radix(line.trim_end(), 16);
        let length = length.context("a length that is no number")?;
        let begins = body.len();
        body.resize(begins + length, 0);
        stream.read_exact(&mut body[begins..]).await?;
        let mut end = String::new();
        stream.read_line(&mut end).await?;
        if length == 0 {
            return Ok(body);
        }
    }
}

/// A client with one connection that stays.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Client {
    pub(crate) async fn connect(host: &str) -> Result<Self> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            host: host.to_owned(),
        })
    }

    /// Posts JSON and waits for an answer in the two hundreds.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<HttpMessage> {
        self.post_with(path, &[], body).await
    }

    /// The same with headers of the caller's.
    pub(crate) async fn post_with(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<HttpMessage> {
        let mut request = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let answer = receive(&mut self.stream)
            .await?
            .context("the server hung up")?;
        ensure!(
            answer.first_line.starts_with("HTTP/1.1 2"),
            "{}: {}",
            answer.first_line,
            String::from_utf8_lossy(&answer.body)
        );
        Ok(answer)
    }

    /// Requests a page as a browser does, and returns how long its first byte took.
    pub(crate) async fn page(&mut self, path: &str) -> Result<Duration> {
        let sent = Instant::now();
        self.ask(path, "text/html").await?;
        self.stream.fill_buf().await?;
        let took = sent.elapsed();
        let answer = receive(&mut self.stream)
            .await?
            .context("the server hung up")?;
        let line = &answer.first_line;
        ensure!(line.starts_with("HTTP/1.1 200"), "{path}: {line}");
        Ok(took)
    }

    /// Begins to watch a stream of events; returns when the first is there.
    pub(crate) async fn watch(&mut self, path: &str) -> Result<()> {
        self.ask(path, "text/event-stream").await?;
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        ensure!(line.starts_with("HTTP/1.1 200"), "{path}: {line}");
        while !line.starts_with("event:") {
            line.clear();
            let read = self.stream.read_line(&mut line).await?;
            ensure!(read > 0, "{path}: the stream ended");
        }
        Ok(())
    }

    /// Reads and discards until the end.
    pub(crate) async fn drain(mut self) -> Result<()> {
        let mut bytes = vec![0; 64 * 1024];
        while self.stream.read(&mut bytes).await? > 0 {}
        Ok(())
    }

    async fn ask(&mut self, path: &str, kind: &str) -> Result<()> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: {kind}\r\n\r\n",
            self.host
        );
        Ok(self.stream.get_mut().write_all(request.as_bytes()).await?)
    }
}
