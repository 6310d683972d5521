//! A scripted server on loopback that misbehaves on demand.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpListener,
    sync::Notify,
    task::{JoinHandle, JoinSet},
};

/// A request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    /// By lower-case name. A header that came twice is a bug, and refused.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no header {name} in {self:?}"))
    }
}

/// What the server does about a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends these bytes and waits for the next request.
    Send(Vec<u8>),
    /// Sends these bytes one by one, a moment between them.
    Drip(Vec<u8>),
    /// Sends these bytes, and then zeros without end.
    Flood(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Sends nothing, and notices when the other side gives up.
    Hang,
}

/// A response with a body.
pub(crate) fn respond(status: u16, headers: &[(&str, &str)], body: &str) -> Act {
    let mut text = format!(
        "HTTP/1.1 {status} Whatever\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    Act::Send(text.into_bytes())
}

/// A response without a body.
pub(crate) fn status(status: u16) -> Act {
    respond(status, &[], "")
}

type Script = dyn Fn(usize, &Request) -> Act + Send + Sync;

#[derive(Default)]
struct RequestLog {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    /// Notified when a request has come in.
    arrived: Notify,
    /// Notified when a hanging connection has been closed by the client.
    given_up: Notify,
}

/// A running server. Stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<RequestLog>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers each request with `script`, which gets the number of earlier requests and the request.
    pub(crate) async fn start(
        script: impl Fn(usize, &Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(None, script).await
    }

    /// The same over TLS.
    pub(crate) async fn start_tls(
        tls: tokio_rustls::TlsAcceptor,
        script: impl Fn(usize, &Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Some(tls), script).await
    }

    async fn start_with(
        tls: Option<tokio_rustls::TlsAcceptor>,
        script: impl Fn(usize, &Request) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(RequestLog::default());
        let script: Arc<Script> = Arc::new(script);
        let shared = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (seen, script, tls) = (Arc::clone(&shared), Arc::clone(&script), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, &seen, &*script).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &seen, &*script).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// The only request there was.
    pub(crate) fn request(&self) -> Request {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Waits until a request has come in.
    pub(crate) async fn arrived(&self) {
        self.seen.arrived.notified().await;
    }

    /// Waits until the other side has closed a connection that was left hanging.
    pub(crate) async fn given_up(&self) {
        self.seen.given_up.notified().await;
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, seen: &RequestLog, script: &Script) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let before = {
            let mut requests = seen.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        seen.arrived.notify_one();
        // A client that has had enough closes; that ends the connection and nothing else.
        match script(before, &request) {
            Act::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
            }
            Act::Drip(bytes) => {
                let mut beat = tokio::time::interval(Duration::from_millis(50));
                for byte in bytes {
                    beat.tick().await;
                    if stream.write_all(&[byte]).await.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                }
            }
            Act::Flood(bytes) => {
                let mut written = stream.write_all(&bytes).await;
                while written.is_ok() {
                    written = stream.write_all(&[b'0'; 8192]).await;
                }
                return;
            }
            Act::Close => return,
            Act::Hang => {
                stream
                    .read_to_end(&mut Vec::new())
                    .await
                    .unwrap_or_default();
                seen.given_up.notify_one();
                return;
            }
        }
    }
}

/// The next request, unless the other side has gone.
async fn read(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Request> {
    let line = read_line(stream).await?;
    let mut headers = BTreeMap::new();
    loop {
        let line = read_line(stream).await?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(": ").unwrap();
        let twice = headers.insert(name.to_ascii_lowercase(), value.to_owned());
        assert_eq!(twice, None, "header {name} came twice");
    }
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request {
        line,
        headers,
        body,
    })
}

async fn read_line(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.strip_suffix("\r\n").map(str::to_owned)
}
