//! What signals do, also to process 1.

use std::{fs, process::Command, time::Duration};

use consign_testkit::{Child, eventually_some};

use crate::{
    http,
    receiver::{Receiver, ReplyMode},
    service::{SOON, Service, fill, signal},
    support::Consign,
};

/// A service with a delivery that does not end.
async fn stuck(consign: &Consign, receiver: &Receiver) -> Service {
    let sink = receiver.sink();
    consign.configure(&format!(
        "[queues.events]\ntimeout_ms = 60000\n[queues.events.sink]\n{sink}"
    ));
    let service = Service::serve(consign).await;
    fill(consign, "events", 1);
    receiver.began(1).await;
    service
}

#[tokio::test]
async fn the_first_signal_waits_for_deliveries_and_the_second_does_not() {
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let receiver = Receiver::start(ReplyMode::Hangs).await;
        let consign = Consign::new();
        let mut service = stuck(&consign, &receiver).await;
        service.signal(name);
        service.logs("no more claims").await;
        let ready = http::get(service.address(), "/readyz").await;
        assert_eq!(
            ready.status, 503,
            "it is still there, and not ready: {ready:?}"
        );
        service.signal(name);
        assert_eq!(service.ends().await, code, "{}", service.log());
    }
}

#[tokio::test]
async fn the_end_waits_for_what_is_under_way() {
    let receiver = Receiver::start(ReplyMode::Hangs).await;
    let consign = Consign::new();
    let mut service = stuck(&consign, &receiver).await;
    service.signal("TERM");
    service.logs("no more claims").await;
    receiver.set(ReplyMode::Takes(Duration::ZERO));
    assert_eq!(service.ends().await, 0);
    let shown = consign.json(["show", "1"]);
    assert_eq!(shown["state"]["state"], "delivered", "{shown}");
}

#[tokio::test]
async fn the_grace_period_ends() {
    let receiver = Receiver::start(ReplyMode::Hangs).await;
    let consign = Consign::new();
    let sink = receiver.sink();
    consign.configure(&format!(
        "[worker]\ngrace_ms = 200\n[queues.events]\ntimeout_ms = 60000\n[queues.events.sink]\n{sink}"
    ));
    let mut service = Service::serve(&consign).await;
    fill(&consign, "events", 1);
    receiver.began(1).await;
    service.signal("TERM");
    assert_eq!(service.ends().await, 0);
    let log = service.log();
    assert!(log.contains("1 uncertain, 0 released, 1 cut off"), "{log}");
    let shown = consign.json(["show", "1"]);
    assert_eq!(shown["attempts"][0]["outcome"], "uncertain", "{shown}");
}

#[tokio::test]
async fn process_one_ends_on_a_signal() {
    let consign = Consign::new();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "true"]);
    if !command.status().is_ok_and(|status| status.success()) {
        eprintln!("process 1 needs the right to make a namespace; left out");
        return;
    }
    let mut command = Command::new("unshare");
    command
        .args([
            "--pid",
            "--fork",
            "--kill-child",
            env!("CARGO_BIN_EXE_consign"),
        ])
        .args([
            "--database",
            consign.database(),
            "serve",
            "--listen",
            "127.0.0.1:0",
        ])
        .current_dir(consign.folder());
    let mut child = Child::start(command);
    child.expect_line("Try it:").await;
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let inner = eventually_some("the process in the namespace", SOON, async || {
        fs::read_to_string(&children)
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    })
    .await;
    signal(inner, "TERM");
    assert_eq!(child.wait(SOON).await.code(), Some(0));
}
