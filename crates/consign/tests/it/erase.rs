//! `consign erase`, in the database and in the archive.

use consign_kernel::Outcome;
use serde_json::{Value, json};

use crate::support::{Consign, queue, work};

/// Message 1 has left with its content, message 2 is delivered, message 3 is ready.
async fn letters() -> Consign {
    let consign = Consign::new();
    consign.configure("[retention]\narchive = \"archive\"\n");
    let store = consign.store().await;
    let letter = |n: u32| {
        let payload = format!(r#"{{"name": "Jane {n}"}}"#);
        let key = format!("letter-{n}");
        let case = "correlation_id=case-7";
        let arguments = ["enqueue", &payload, "--key", &key, "--header", case];
        consign.run(arguments).expect(0);
    };
    letter(1);
    work(&*store, &queue("default"), Outcome::Delivered, "http_200").await;
    let keep = |time| {
        consign
            .run(["queues", "set", "default", "--keep", time])
            .expect(0);
    };
    keep("0s");
    assert_eq!(consign.json(["retention", "run"])["departed"], 1);
    keep("1h");
    letter(2);
    work(&*store, &queue("default"), Outcome::Delivered, "http_200").await;
    letter(3);
    consign
}

fn archive(consign: &Consign) -> String {
    consign.folder().join("archive").display().to_string()
}

fn archived_payload(consign: &Consign) -> Value {
    let folder = archive(consign);
    consign.json(["show", "1", "--archive", &folder])["payload"].clone()
}

#[tokio::test]
async fn a_case_is_erased_in_the_database_and_in_the_archive() {
    let consign = letters().await;
    let case = ["erase", "--correlation-id", "case-7"];
    let preview = consign.json(case);
    assert_eq!(preview["preview"], true);
    let ids = |found: &Value| -> Vec<Value> {
        let messages = found["messages"].as_array().unwrap().iter();
        messages.map(|message| message["id"].clone()).collect()
    };
    assert_eq!(ids(&preview), [1, 2, 3]);
    let text = consign.run(case).expect(0);
    assert!(text.stdout.contains("with --yes"), "{text:#?}");
    let without = consign.run([&case[..], &["--yes"]].concat()).expect(2);
    assert!(without.stderr.contains("--reason"), "{without:#?}");
    assert_eq!(archived_payload(&consign), json!({"name": "Jane 1"}));

    let yes = ["--yes", "--actor", "grace", "--reason", "request 12"];
    let erased = consign.run([&case[..], &yes, &["--json"]].concat());
    let erased = erased.expect(1).json();
    let expected = json!([
        {"id": 2, "answer": "erased"},
        {"id": 3, "answer": "not_final", "state": "ready"},
    ]);
    assert_eq!(erased["messages"], expected);
    assert_eq!(erased["archive"], json!([1]));
    assert_eq!(archived_payload(&consign), Value::Null);
    let folder = archive(&consign);
    let shown = consign.run(["show", "1", "--archive", &folder]).expect(0);
    assert!(shown.stdout.contains("payload   erased"), "{shown:#?}");
    assert!(shown.stdout.contains("by grace: request 12"), "{shown:#?}");
    let listed = consign.run(["ls", "--archive", &folder]).expect(0);
    assert!(listed.stdout.contains("delivered, erased"), "{listed:#?}");

    let shown = consign.run(["show", "2"]).expect(0);
    assert!(shown.stdout.contains("payload   erased"), "{shown:#?}");
    let explained = consign.run(["explain", "2"]).expect(0);
    assert!(
        explained.stdout.contains("by grace: request 12"),
        "{explained:#?}"
    );
    let listed = consign.run(["ls"]).expect(0);
    assert!(listed.stdout.contains("delivered, erased"), "{listed:#?}");
    assert_eq!(
        consign.json(["show", "3"])["message"]["payload"]["name"],
        "Jane 3"
    );
    let status = consign.json(["retention", "status"]);
    assert_eq!(status["queues"][0]["erased"], 1);
    consign.run(["doctor"]).expect(0);
}

#[tokio::test]
async fn a_message_is_erased_by_id_or_key_again_and_again() {
    let consign = letters().await;
    let yes = ["--yes", "--reason", "request 12"];
    let by_key = ["erase", "--queue", "default", "--key", "letter-1"];
    for _ in 0..2 {
        let erased = consign.run([&by_key[..], &yes].concat()).expect(0);
        let lines = "1: has left the database\n1: erased in the archive\n";
        assert_eq!(erased.stdout, lines, "{erased:#?}");
    }
    assert_eq!(archived_payload(&consign), Value::Null);
    let erased = consign.run([&["erase", "2"][..], &yes].concat()).expect(0);
    assert_eq!(erased.stdout, "2: erased\n");
    let again = consign.run([&["erase", "2", "1"][..], &yes].concat());
    let lines = "1: is not in the database\n2: was erased before\n1: erased in the archive\n";
    assert_eq!(again.expect(0).stdout, lines);
    let missing = consign.run([&["erase", "99"][..], &yes].concat()).expect(4);
    assert!(
        missing.stdout.contains("99: is not in the database"),
        "{missing:#?}"
    );
    let nothing = ["erase", "--correlation-id", "no-such-case"];
    consign.run([&nothing[..], &yes].concat()).expect(4);
    let named = [&["erase", "1", "--archive", "nowhere"][..], &yes].concat();
    let named = consign.run(named).expect(4);
    assert!(
        named.stderr.contains("archive nowhere does not exist"),
        "{named:#?}"
    );
    consign.run(["erase", "--key", "letter-1"]).expect(2);
    consign.run(["erase"]).expect(2);
    // The repeated key is a duplicate as before.
    let payload = r#"{"name": "Jane 2"}"#;
    let repeated = consign.json(["enqueue", payload, "--key", "letter-2"]);
    assert_eq!(
        (&repeated["id"], &repeated["duplicate"]),
        (&json!(2), &json!(true))
    );
    consign.run(["enqueue", "7", "--key", "letter-2"]).expect(3);
}
