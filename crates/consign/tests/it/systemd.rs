//! Notifications to the service manager.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::{Duration, Instant},
};

use crate::{
    receiver::{Receiver, ReplyMode},
    service::{SOON, Service, fill},
    support::Consign,
};

/// Datagrams until one contains `text`; answers with that one.
fn hear(socket: &UnixDatagram, text: &str) -> String {
    let deadline = Instant::now() + SOON;
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while Instant::now() < deadline {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
                if said.contains(text) {
                    return said;
                }
                heard.push(said);
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
        }
    }
    panic!("never received {text:?}, only {heard:#?}");
}

async fn serve(consign: &Consign, name: &str) -> Service {
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    Service::start(consign, &arguments, |command| {
        command
            .env("NOTIFY_SOCKET", name)
            .env("WATCHDOG_USEC", "300000");
    })
    .await
}

#[tokio::test]
async fn notifies_systemd_of_readiness_liveness_and_stop() {
    let consign = Consign::new();
    let receiver = Receiver::start(ReplyMode::Hangs).await;
    consign.configure(&format!("[queues.events.sink]\n{}", receiver.sink()));
    let path = consign.folder().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let mut service = serve(&consign, path.to_str().unwrap()).await;
    hear(&socket, "READY=1");
    let began = Instant::now();
    for _ in 0..4 {
        hear(&socket, "WATCHDOG=1");
    }
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(300),
        "twice as often as requested, not more: {took:?}"
    );
    fill(&consign, "events", 1);
    receiver.began(1).await;
    service.signal("TERM");
    let stopping = hear(&socket, "STOPPING=1");
    assert!(
        stopping.contains("EXTEND_TIMEOUT_USEC=40000000"),
        "{stopping}"
    );
    hear(&socket, "WATCHDOG=1");
    receiver.set(ReplyMode::Takes(Duration::ZERO));
    assert_eq!(service.ends().await, 0);
}

#[tokio::test]
async fn a_socket_without_a_file_is_reached_too() {
    let name = format!("consign-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let consign = Consign::new();
    let service = serve(&consign, &format!("@{name}")).await;
    hear(&socket, "READY=1");
    service.stop().await;
}

#[tokio::test]
async fn a_manager_that_is_gone_is_no_reason_to_fail() {
    let consign = Consign::new();
    let service = serve(&consign, "/nowhere/notify").await;
    assert!(service.log().contains("NOTIFY_SOCKET"), "{}", service.log());
    service.stop().await;
}
