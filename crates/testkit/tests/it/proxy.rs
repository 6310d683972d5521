use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use consign_testkit::{ChaosProxy, TestDatabase, eventually};
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// An echo server that records what it has received.
async fn echo_server() -> (SocketAddr, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    // Not every test reads it.
                    sender.send(buffer[..count].to_vec()).ok();
                    stream.write_all(&buffer[..count]).await.unwrap();
                }
            });
        }
    });
    (address, received)
}

async fn exchange(stream: &mut TcpStream, request: &[u8; 4]) -> [u8; 4] {
    stream.write_all(request).await.unwrap();
    reply(stream).await
}

async fn reply(stream: &mut TcpStream) -> [u8; 4] {
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await.unwrap();
    reply
}

/// Whether the other side has closed or reset the connection.
async fn is_closed(mut stream: TcpStream) -> bool {
    !matches!(stream.read(&mut [0; 1]).await, Ok(1..))
}

#[tokio::test]
async fn a_new_proxy_is_transparent_and_counts_connections() {
    let (server, _) = echo_server().await;
    let proxy = ChaosProxy::start(server).await;
    let mut one = TcpStream::connect(proxy.address()).await.unwrap();
    let mut two = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(&exchange(&mut one, b"ping").await, b"ping");
    assert_eq!(&exchange(&mut two, b"pong").await, b"pong");
    assert_eq!(proxy.connection_count(), 2);

    drop(one);
    let deadline = Duration::from_secs(5);
    eventually("one is gone", deadline, || async {
        proxy.connection_count() == 1
    })
    .await;
    assert_eq!(proxy.accepted_count(), 2);
}

#[tokio::test]
async fn a_cut_closes_what_is_open_and_refuses_what_is_new_until_restored() {
    let (server, _) = echo_server().await;
    let proxy = ChaosProxy::start(server).await;
    let mut before = TcpStream::connect(proxy.address()).await.unwrap();
    exchange(&mut before, b"ping").await;

    proxy.cut().await;
    assert_eq!(proxy.connection_count(), 0);
    assert!(is_closed(before).await);
    assert!(is_closed(TcpStream::connect(proxy.address()).await.unwrap()).await);

    proxy.restore();
    let mut after = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(&exchange(&mut after, b"ping").await, b"ping");
    assert_eq!(proxy.accepted_count(), 2);
}

#[tokio::test]
async fn swallowed_replies_reach_the_server_as_requests_and_the_client_on_resume() {
    let (server, mut received) = echo_server().await;
    let proxy = ChaosProxy::start(server).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();

    proxy.swallow_replies();
    client.write_all(b"ping").await.unwrap();
    assert_eq!(received.recv().await.unwrap(), b"ping");
    proxy.reply_withheld().await;
    assert!(client.try_read(&mut [0; 1]).is_err(), "nothing to read yet");

    proxy.resume();
    assert_eq!(&reply(&mut client).await, b"ping");
}

#[tokio::test]
async fn swallowed_requests_reach_the_server_on_resume() {
    let (server, mut received) = echo_server().await;
    let proxy = ChaosProxy::start(server).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();

    proxy.swallow_requests();
    client.write_all(b"ping").await.unwrap();
    proxy.request_withheld().await;
    assert!(
        received.try_recv().is_err(),
        "the server has received nothing"
    );

    proxy.resume();
    assert_eq!(&reply(&mut client).await, b"ping");
}

#[tokio::test]
async fn a_cut_throws_away_what_was_withheld() {
    let (server, mut received) = echo_server().await;
    let proxy = ChaosProxy::start(server).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();

    proxy.swallow_requests();
    client.write_all(b"lost").await.unwrap();
    proxy.request_withheld().await;
    proxy.cut().await;
    proxy.resume();
    proxy.restore();

    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    exchange(&mut client, b"next").await;
    assert_eq!(received.recv().await.unwrap(), b"next");
}

#[tokio::test]
async fn a_delay_holds_up_both_directions() {
    let (server, _) = echo_server().await;
    let proxy = ChaosProxy::start(server).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.delay(Duration::from_millis(50));
    let started = Instant::now();
    assert_eq!(&exchange(&mut client, b"slow").await, b"slow");
    assert!(started.elapsed() >= Duration::from_millis(100));
}

/// What the proxy is for: the server has committed, and the client cannot know.
#[tokio::test]
async fn a_commit_can_be_stopped_before_its_answer() {
    let database = TestDatabase::create(async |url| {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::query("CREATE TABLE parcel (id int)")
            .execute(&mut connection)
            .await
            .unwrap();
    })
    .await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let url = database.url_via(proxy.address());

    let mut client = PgConnection::connect(&url).await.unwrap();
    let mut tx = client.begin().await.unwrap();
    sqlx::query("INSERT INTO parcel VALUES (1)")
        .execute(&mut *tx)
        .await
        .unwrap();
    proxy.swallow_replies();
    let (committed, ()) = tokio::join!(tx.commit(), async {
        proxy.reply_withheld().await;
        proxy.cut().await;
    });

    assert!(committed.is_err(), "the client saw a broken connection");
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let stored: Vec<i32> = sqlx::query_scalar("SELECT id FROM parcel")
        .fetch_all(&mut observer)
        .await
        .unwrap();
    assert_eq!(stored, [1], "the server did commit");
}
