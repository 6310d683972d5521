use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use consign_testkit::{NatsCluster, NatsServer, RabbitmqServer, RedisServer, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(10);

/// The first piece of a server's answer.
async fn ask(server: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn a_killed_redis_returns_with_its_data() {
    let mut redis = RedisServer::start().await;
    assert_eq!(ask(redis.address(), "SET k 7\r\n").await, "+OK\r\n");
    redis.kill9();
    assert!(TcpStream::connect(redis.address()).await.is_err());
    redis.start_again().await;
    eventually("the data is loaded", PATIENCE, || async {
        ask(redis.address(), "STRLEN k\r\n").await == ":1\r\n"
    })
    .await;
}

#[tokio::test]
async fn options_of_redis_are_obeyed() {
    let redis = RedisServer::start_with(&["--requirepass", "secret"]).await;
    let answer = ask(redis.address(), "PING\r\n").await;
    assert!(answer.starts_with("-NOAUTH"), "{answer}");
}

#[tokio::test]
async fn a_nats_server_has_jetstream_and_returns_on_its_port() {
    let mut nats = NatsServer::start_with("max_payload: 777").await;
    let greeting = ask(nats.address(), "").await;
    assert!(greeting.contains(r#""jetstream":true"#), "{greeting}");
    assert!(greeting.contains(r#""max_payload":777"#), "{greeting}");
    nats.terminate().await;
    assert!(TcpStream::connect(nats.address()).await.is_err());
    nats.start_again().await;
    assert!(ask(nats.address(), "").await.starts_with("INFO"));
}

#[tokio::test]
async fn nodes_of_a_nats_cluster_are_connected() {
    let mut cluster = NatsCluster::start().await;
    let address = cluster.node("node2").address();
    eventually("node2 lists three", PATIENCE, || async {
        let greeting = ask(address, "").await;
        let urls = greeting.split("connect_urls").nth(1).unwrap_or_default();
        urls.matches("127.0.0.1:").count() == 3
    })
    .await;
}

#[tokio::test]
async fn nothing_of_rabbitmq_is_left_behind() {
    let rabbitmq = RabbitmqServer::start().await;
    let address = rabbitmq.address();
    // It answers AMQP's greeting with a method of the connection: a frame of type 1.
    let greeting = "AMQP\0\0\u{9}\u{1}";
    assert!(ask(address, greeting).await.starts_with('\u{1}'));
    let ids = rabbitmq.ids();
    drop(rabbitmq);
    assert!(TcpStream::connect(address).await.is_err());
    for id in ids {
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
