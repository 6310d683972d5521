//! `consign redrive`: started by a command, run by a service.

use consign_testkit::eventually;

use crate::{
    http,
    receiver::{Receiver, ReplyMode},
    service::{SOON, Service, fill, unfinished},
    support::{Consign, assert_stable},
};

#[tokio::test]
async fn dead_messages_come_back_little_by_little() {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let consign = Consign::new();
    consign.configure(&format!("[queues.events.sink]\n{}", receiver.sink()));
    let service = Service::serve(&consign).await;
    fill(&consign, "events", 6);
    let dead = || consign.json(["queues", "show", "events"])["counts"]["dead"].clone();
    eventually("all are dead", SOON, async || dead() == 6).await;

    let preview = consign
        .run(["redrive", "start", "--queue", "events"])
        .expect(0);
    assert!(
        preview.stdout.contains("6 messages would be requeued"),
        "{preview:#?}"
    );
    let still = [
        "redrive",
        "start",
        "--queue",
        "events",
        "--dry-run",
        "--yes",
        "--json",
    ];
    assert_eq!(consign.run(still).expect(0).json()["preview"], true);
    assert_eq!(dead(), 6, "a preview changes nothing");
    let short = ["redrive", "start", "--queue", "events", "--limit", "4"];
    let preview = consign.run(short).expect(0).stdout;
    let share = "4 messages of the 6 that match would be requeued.";
    assert!(preview.contains(share), "{preview}");

    receiver.set(ReplyMode::Takes(std::time::Duration::ZERO));
    let start = [
        "redrive", "start", "--queue", "events", "--limit", "4", "--yes",
    ];
    consign
        .run(start.into_iter().chain(["--reason", "fixed"]))
        .expect(0);
    eventually("four were moved", SOON, async || {
        dead() == 2 && unfinished(&consign, "events") == 0
    })
    .await;
    eventually("it is done", SOON, async || {
        consign.json(["redrive", "show", "1"])["state"] == "done"
    })
    .await;
    assert_stable(
        "redrive_show",
        &consign.run(["redrive", "show", "1"]).expect(0).stdout,
    );
    assert_stable(
        "redrive_ls",
        &consign.run(["redrive", "ls"]).expect(0).stdout,
    );
    let audit = http::get(service.address(), "/v1/audit").await;
    assert!(audit.body.contains("redrive 1: fixed"), "{}", audit.body);
    service.stop().await;
}

#[test]
fn a_redrive_is_stopped_and_resumed_by_its_number() {
    let consign = Consign::new();
    consign
        .run(["redrive", "start", "--rate", "5", "--yes"])
        .expect(0);
    assert_eq!(consign.json(["redrive", "stop", "1"])["state"], "stopped");
    assert_eq!(consign.json(["redrive", "resume", "1"])["state"], "running");
    assert_eq!(
        consign.json(["redrive", "ls"])["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for action in ["show", "stop", "resume"] {
        let (code, _) = consign
            .run(["redrive", action, "7", "--json"])
            .expect(4)
            .error();
        assert_eq!(code, "unknown_redrive");
    }
    consign
        .run(["redrive", "start", "--rate", "0", "--yes"])
        .expect(3);
    consign
        .run(["redrive", "start", "--queue", "nowhere"])
        .expect(3);
}
