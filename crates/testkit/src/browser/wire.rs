//! One command of the WebDriver protocol: one request, one connection.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The text of a request.
pub(super) fn request(at: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> String {
    let body = body.map(Value::to_string).unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a command; the error is the driver's.
pub(super) async fn send(
    at: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<Value, String> {
    let request = request(at, method, path, body);
    let answer = exchange(at, &request).await;
    let answer = answer.map_err(|error| format!("{method} {path}: {error}"))?;
    let mut json: Value = serde_json::from_slice(&answer)
        .map_err(|error| format!("{method} {path} was answered with no JSON: {error}"))?;
    let value = json["value"].take();
    match value["error"].as_str() {
        Some(error) => Err(format!("{error}: {}", value["message"])),
        None => Ok(value),
    }
}

/// The body of the answer.
async fn exchange(at: SocketAddr, request: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // The driver need not close the connection.
    loop {
        if let Some(body) = body(&answer) {
            return Ok(body.to_vec());
        }
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The body, once all of it is there.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?.to_lowercase();
    let (_, length) = head.split_once("content-length:")?;
    let length: usize = length.lines().next()?.trim().parse().ok()?;
    answer.get(end + 4..end + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nx: y\r\n\r\nnull";
        assert_eq!(body(answer), Some(&b"null"[..]));
        for end in 0..answer.len() {
            assert_eq!(body(&answer[..end]), None, "{end}");
        }
    }
}
