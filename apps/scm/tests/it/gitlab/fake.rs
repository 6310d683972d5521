//! A fake GitLab server: pages, totals, errors and their texts as in the real one. Scripted faults: rate
//! limits, revoked tokens, silence, truncated answers, and changes between two requests.

// The program's own tests have this server too.
#[path = "fake/world.rs"]
mod world;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) use self::world::{Note, World, at as world_at};

pub(crate) const TOKEN: &str = "glpat-c0rrect";

/// What happens to a request instead of its answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// So, with these headers.
    Status(u16, Vec<(&'static str, String)>),
    /// A page of a proxy.
    Html,
    /// The answer, but its JSON ends too early; HTTP does not notice.
    Truncated,
    /// The connection ends in the middle of the answer.
    Dropped,
    /// Nothing comes.
    Silent,
    /// The answer begins, and then nothing comes.
    Stalled,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// Path and query, as they were sent.
    pub(crate) target: String,
    pub(crate) token: Option<String>,
}

/// A running server. Ends with the test.
pub(crate) struct Gitlab {
    address: SocketAddr,
    world: Arc<Mutex<World>>,
}

impl Gitlab {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let world = Arc::new(Mutex::new(World::default()));
        let served = Arc::clone(&world);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served)));
            }
        });
        Self { address, world }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/g/p", self.address)
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Requests since the last call.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.world().requests)
    }
}

/// One request on one connection.
async fn serve(mut stream: TcpStream, world: Arc<Mutex<World>>) {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => head.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let token = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("private-token")
            .then(|| value.trim().to_owned())
    });
    let (answer, fault) = world
        .lock()
        .unwrap()
        .answer(&RecordedRequest { target, token });
    let mut text = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        text += &format!("{name}: {value}\r\n");
    }
    let mut body = answer.body.into_bytes();
    if matches!(fault, Some(Fault::Truncated)) {
        body.truncate(body.len() / 2);
    }
    text += &format!("Content-Length: {}\r\n\r\n", body.len());
    let sent = match fault {
        Some(Fault::Silent) => 0,
        Some(Fault::Dropped | Fault::Stalled) => body.len() / 2,
        _ => body.len(),
    };
    let whole = [text.as_bytes(), &body[..sent]].concat();
    if !matches!(fault, Some(Fault::Silent)) && stream.write_all(&whole).await.is_err() {
        return;
    }
    if matches!(fault, Some(Fault::Silent | Fault::Stalled)) {
        // Until the client disconnects.
        drop(stream.read(&mut buffer).await);
    }
}
