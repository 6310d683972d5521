//! Connections: ends, many of them, and TLS.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use consign_server::{Server, ServerOptions};
use consign_testkit::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::{
    bench::Bench,
    faults::{Fault, FaultyStore},
    http::{TestServer, answer, post, rest, send},
};

const SOON: Duration = Duration::from_secs(20);
const PATH: &str = "/v1/queues/mail/messages";
const CLOSE: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_request_under_way_is_answered_before_the_server_ends() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let gate = Arc::new(Semaphore::new(0));
    store.inject("enqueue", Fault::Waits(gate.clone()));
    let bench = bench.with_store(store.clone());
    let mut server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
    let address = server.address;
    let mut idle = server.connect().await;
    let mut stream = server.connect().await;
    let text = post(PATH, "{\"payload\": 1}");
    stream.write_all(text.as_bytes()).await.unwrap();
    eventually("the request is worked on", SOON, || async {
        store.calls("enqueue") == 1
    })
    .await;
    server.signal_stop();
    assert_eq!(rest(&mut idle).await, "", "idle connections end at once");
    eventually("no new connection is accepted", SOON, || async {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    let ended = server.ends_within(Duration::from_millis(100)).await;
    assert!(!ended, "it waits for the request");
    gate.add_permits(1);
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 202"), "{text}");
    timeout(SOON, server.stopped()).await.unwrap();
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_keep_the_server() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    store.inject("enqueue", Fault::Waits(Arc::new(Semaphore::new(0))));
    let bench = bench.with_store(store.clone());
    let options = ServerOptions {
        shutdown_grace_ms: 50,
        ..ServerOptions::default()
    };
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut stream = server.connect().await;
    let text = post(PATH, "{\"payload\": 1}");
    stream.write_all(text.as_bytes()).await.unwrap();
    eventually("the request is worked on", SOON, || async {
        store.calls("enqueue") == 1
    })
    .await;
    timeout(SOON, server.stopped()).await.unwrap();
}

#[tokio::test]
async fn a_connection_without_a_request_makes_room_for_another() {
    let bench = Bench::reference().await;
    let options = ServerOptions {
        connections_max: 2,
        header_timeout_ms: 600_000,
        ..ServerOptions::default()
    };
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut half_open = server.connect().await;
    half_open.write_all(b"POST /v1/la").await.unwrap();
    let mut kept_alive = server.connect().await;
    let open = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    kept_alive.write_all(open.as_bytes()).await.unwrap();
    assert!(answer(&mut kept_alive).await.starts_with("HTTP/1.1 200"));
    let mut another = server.connect().await;
    let request = post(PATH, "{\"payload\": 1}").replace("host: ", "connection: close\r\nhost: ");
    let text = timeout(SOON, send(&mut another, &request)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 202"), "{text}");
    let closed = timeout(SOON, rest(&mut half_open)).await;
    assert_eq!(closed.unwrap(), "", "the one without a request is closed");
    server.stopped().await;
}

#[tokio::test]
async fn probes_are_answered_while_every_connection_is_at_work() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let gate = Arc::new(Semaphore::new(0));
    store.inject("enqueue", Fault::Waits(gate.clone()));
    let bench = bench.with_store(store.clone());
    let options = ServerOptions {
        connections_max: 1,
        ..ServerOptions::default()
    };
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut first = server.connect().await;
    let request = post(PATH, "{\"payload\": 1}");
    first.write_all(request.as_bytes()).await.unwrap();
    eventually("the request is worked on", SOON, || async {
        store.calls("enqueue") == 1
    })
    .await;
    let mut probe = server.connect().await;
    let text = timeout(SOON, send(&mut probe, CLOSE)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let mut second = server.connect().await;
    let text = timeout(SOON, send(&mut second, &request)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 503"), "{text}");
    assert!(text.contains("retry-after: 1"), "{text}");
    assert!(text.contains("overloaded"), "{text}");
    gate.add_permits(1);
    let text = answer(&mut first).await;
    assert!(
        text.starts_with("HTTP/1.1 202"),
        "never closed for another: {text}"
    );
    server.stopped().await;
}

#[tokio::test]
async fn the_peer_of_a_connection_is_who_counts() {
    let bench = Bench::reference().await;
    let server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
    let mut stream = server.connect().await;
    let request = "GET /v1/queues HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let text = send(&mut stream, request).await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let mut rebound = server.connect().await;
    let request = request.replace("localhost", "evil.example");
    let text = send(&mut rebound, &request).await;
    assert!(text.starts_with("HTTP/1.1 403"), "{text}");
    server.stopped().await;
}

#[tokio::test]
async fn https_is_spoken_with_a_certificate() {
    let [authority, cert, key] = ["ca.pem", "server.pem", "server.key"].map(certificate);
    let options = ServerOptions {
        tls_cert: Some(cert.clone()),
        tls_key: Some(key.clone()),
        ..ServerOptions::default()
    };
    let bench = Bench::reference().await;
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(&authority).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector
        .connect(name, server.connect().await)
        .await
        .unwrap();
    stream.write_all(CLOSE.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap_or_default();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let mut plain = server.connect().await;
    let text = send(&mut plain, CLOSE).await;
    assert!(!text.contains("200 OK"), "{text}");
    server.stopped().await;
    let swapped = ServerOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        tls_cert: Some(key),
        tls_key: Some(cert),
        ..ServerOptions::default()
    };
    let error = Server::bind(&swapped).await.unwrap_err().to_string();
    assert!(error.contains("server.key"), "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_named_in_the_error() {
    let bench = Bench::reference().await;
    let server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
    let options = ServerOptions {
        listen: server.address,
        ..ServerOptions::default()
    };
    let error = Server::bind(&options).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {}", server.address)),
        "{error}"
    );
    server.stopped().await;
}

/// A file of the authority that the tests of https share, or of the server that it vouches for.
fn certificate(name: &str) -> PathBuf {
    let sinks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sinks");
    sinks.join("tests/data").join(name)
}
