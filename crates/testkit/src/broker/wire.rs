//! As much of HTTP/1.1 as the broker needs, close enough to the socket to break off anywhere.

use std::collections::BTreeMap;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// A request as it came in.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// With the query, if there is one.
    pub(super) target: String,
    /// By lower-case name.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

/// What goes back.
#[derive(Debug)]
pub(super) enum Reply {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Nothing, until the other side gives up.
    Silence,
    /// The end of the connection.
    Close,
}

impl Reply {
    pub(super) fn json(status: u16, body: String) -> Self {
        Self::Answer {
            status,
            headers: vec![("content-type", "application/json".into())],
            body,
        }
    }
}

/// The next request; none when the other side has closed or breaks off.
pub(super) async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or("0", String::as_str);
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        method,
        target,
        headers,
        body: String::from_utf8(body).ok()?,
    })
}

/// Sends the reply; whether the connection can carry another request.
pub(super) async fn write(stream: &mut BufReader<TcpStream>, reply: Reply) -> bool {
    match reply {
        Reply::Answer {
            status,
            headers,
            body,
        } => {
            let mut text = format!(
                "HTTP/1.1 {status} Whatever\r\ncontent-length: {}\r\n",
                body.len()
            );
            for (name, value) in headers {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
            text.push_str("\r\n");
            text.push_str(&body);
            stream.write_all(text.as_bytes()).await.is_ok()
        }
        Reply::Silence => {
            // Ends when the other side closes; its input meanwhile is discarded.
            let mut ignored = [0; 1024];
            while matches!(stream.read(&mut ignored).await, Ok(1..)) {}
            false
        }
        Reply::Close => false,
    }
}

/// Text with its `%2F` taken out.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_taken_out_and_the_rest_is_left() {
        assert_eq!(decode("a%2Fb%20c"), "a/b c");
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz"), "%zz");
    }
}
