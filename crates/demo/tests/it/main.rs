//! `consign-demo-shop`: a shop that a browser can look at, and nothing of it afterwards. It needs the program
//! `consign` beside it, which a build of the whole workspace makes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::{fs::File, net::SocketAddr, path::Path};

use consign_testkit::{Child, eventually, eventually_some};
use serde_json::Value;

use crate::support::{Consign, SOON, get};

/// A shop whose temporary files are in the test's folder.
async fn shop(consign: &Consign) -> (Child, SocketAddr) {
    let temporary = consign.folder().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = consign.shop();
    command.stderr(File::create(consign.folder().join("log")).unwrap());
    command
        .args(["--seed", "7"])
        .env("TMPDIR", &temporary)
        // Neither is for a demo to fill.
        .env("CONSIGN_DATABASE_URL", consign.database())
        .env("BROKER_ADAPTER", "http");
    let mut child = Child::start(command);
    let line = child.expect_line("").await;
    let address = line.strip_prefix("http://").and_then(|at| at.parse().ok());
    let address = address.unwrap_or_else(|| panic!("the first line is the address: {line}"));
    (child, address)
}

/// The first page in a browser.
async fn overview(at: SocketAddr) -> String {
    get(at, "/", "text/html").await
}

/// What the HTTP API answers.
async fn json(at: SocketAddr, path: &str) -> Value {
    serde_json::from_str(&get(at, path, "application/json").await).unwrap()
}

/// The numbers of a protocol's card, none of them of a card that is not there.
fn card(page: &str, title: &str) -> Vec<u64> {
    let cards = page.split("<article").skip(1);
    let card = cards
        .filter_map(|card| card.split("</article>").next())
        .find(|card| card.contains(&format!(">{title}</a>")));
    let numbers = card.unwrap_or_default().split("<dd>").skip(1);
    let number = |rest: &str| rest.split("</dd>").next()?.replace(',', "").parse().ok();
    numbers.filter_map(number).collect()
}

/// How many messages of a queue are in a state.
async fn count(at: SocketAddr, queue: &str, state: &str) -> u64 {
    let queue = json(at, &format!("/v1/queues/{queue}")).await;
    queue["counts"][state].as_u64().unwrap_or_default()
}

fn left(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().into_owned()
    };
    entries.map(name).collect()
}

#[tokio::test]
async fn a_shop_shows_something_everywhere_and_leaves_nothing_behind() {
    let consign = Consign::unmigrated();
    let (mut child, at) = shop(&consign).await;
    for title in ["Orders", "Payments", "Memories"] {
        eventually(title, SOON, async || {
            card(&overview(at).await, title).iter().sum::<u64>() > 0
        })
        .await;
    }
    // Tried, with an uncertain outcome; others are held before they are tried.
    eventually("a payment in doubt", SOON, async || {
        let held = "/v1/messages?queue=payments&state=held";
        let held = json(at, held).await;
        let is_tried = |payment: &Value| payment["attempts"].as_u64() > Some(0);
        held["messages"].as_array().unwrap().iter().any(is_tried)
    })
    .await;
    for queue in ["mail", "webhooks", "orders", "payments"] {
        let what = format!("dead in {queue}");
        eventually(&what, SOON, async || count(at, queue, "dead").await > 0).await;
    }
    eventually("the breaker of the partner opens", SOON, async || {
        let queue = json(at, "/v1/queues/partner").await;
        queue["worker"]["breaker"] == "open"
    })
    .await;
    let page = overview(at).await;
    for queue in ["mail", "webhooks", "partner", "newsletter", "reports"] {
        let link = format!("href=\"/ui/queues/{queue}\"");
        assert!(page.contains(&link), "{queue}: {page}");
    }
    let lease = eventually_some("a printer at work", SOON, async || {
        let leases = json(at, "/v1/leases").await;
        let is_printer = |lease: &&Value| lease["owner"].as_str().unwrap().starts_with("printer-");
        leases["leases"]
            .as_array()?
            .iter()
            .find(is_printer)
            .cloned()
    })
    .await;
    assert_eq!(lease["queue"], "reports");

    child.terminate();
    assert_eq!(child.wait(SOON).await.code(), Some(0));
    assert_eq!(left(&consign.folder().join("temporary")), [""; 0]);
    let log = std::fs::read_to_string(consign.folder().join("log")).unwrap();
    assert_eq!(log, "", "the shop sends no invalid request");
    let mut elsewhere = left(consign.folder());
    elsewhere.sort();
    assert_eq!(elsewhere, ["log", "temporary"]);
}

/// Its error about a database of the test's.
async fn refusal(consign: &Consign) -> String {
    let mut command = consign.shop();
    let said = tempfile::NamedTempFile::new().unwrap();
    command
        .args(["--database", consign.database()])
        .env("TMPDIR", consign.folder())
        .stderr(said.reopen().unwrap());
    let ended = Child::start(command).wait(SOON).await;
    let said = std::fs::read_to_string(said.path()).unwrap();
    assert_eq!(ended.code(), Some(3), "{said}");
    said
}

#[tokio::test]
async fn a_database_with_messages_is_left_alone() {
    let consign = Consign::new();
    consign.json(&["enqueue", "1"]);
    let before = everything(&consign);
    let said = refusal(&consign).await;
    assert!(said.contains("is in use already"), "{said}");
    assert_eq!(everything(&consign), before);
    let left = left(consign.folder());
    assert!(
        left.iter().all(|name| name.starts_with("test.db")),
        "{left:?}"
    );
}

/// Messages, queues with their policies and counts, and what was done by hand.
fn everything(consign: &Consign) -> [Value; 3] {
    [&["queues"][..], &["ls"], &["show", "1"]].map(|command| consign.json(command))
}

/// It may be a gateway's, whose memories are all stored.
#[tokio::test]
async fn a_database_without_messages_is_somebodys_all_the_same() {
    let consign = Consign::new();
    let said = refusal(&consign).await;
    assert!(said.contains("is in use already"), "{said}");
}

#[tokio::test]
async fn a_file_of_another_program_is_left_alone() {
    let consign = Consign::unmigrated();
    let file = consign.folder().join("test.db");
    std::fs::write(&file, b"").unwrap();
    consign.sql("CREATE TABLE theirs (id int)").await;
    let before = std::fs::read(&file).unwrap();
    let said = refusal(&consign).await;
    assert!(said.contains("is in use already"), "{said}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}
