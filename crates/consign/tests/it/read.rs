//! `ls`, `show`, `explain`, `leases`, `doctor`.

use std::process::Command;

use consign_kernel::{Claim, Outcome};
use serde_json::{Value, json};

use crate::support::{Consign, assert_stable, finish, queue, work};

fn ids(page: &Value) -> Vec<i64> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["id"].as_i64().unwrap())
        .collect()
}

/// Message 1 delivered on its second attempt, 2 dead, 3 and 4 ready, 4 in another queue.
async fn mixed() -> Consign {
    let consign = Consign::new();
    consign.run(["queues", "set", "mail"]).expect(0);
    let retry_now = ["queues", "set", "default", "--retry", "fixed:0s"];
    consign.run(retry_now).expect(0);
    let store = consign.store().await;
    consign.run(["enqueue", "1", "--key", "order-1"]).expect(0);
    work(&*store, &queue("default"), Outcome::Retry, "http_503").await;
    work(&*store, &queue("default"), Outcome::Delivered, "http_200").await;
    consign
        .run(["enqueue", r#"{"a": "\u001b[2J"}"#, "--header", "h=v"])
        .expect(0);
    work(&*store, &queue("default"), Outcome::Dead, "http_404").await;
    consign.run(["enqueue", "3", "--group", "g"]).expect(0);
    consign.run(["enqueue", "4", "--queue", "mail"]).expect(0);
    consign
}

#[tokio::test]
async fn messages_are_listed_newest_first_and_filtered() {
    let consign = mixed().await;
    let check = |arguments: &[&str], expected: &[i64]| {
        let page = consign.json(["ls"].iter().chain(arguments).copied());
        assert_eq!(ids(&page), expected, "{arguments:?}");
    };
    check(&[], &[4, 3, 2, 1]);
    check(&["--queue", "mail"], &[4]);
    check(&["--state", "ready"], &[4, 3]);
    check(&["--state", "dead"], &[2]);
    check(&["--state", "delivered"], &[1]);
    check(&["--key", "order-1"], &[1]);
    check(&["--code", "http_404"], &[2]);
    check(&["--code", "http_500"], &[]);
    check(&["--before", "3"], &[2, 1]);
    let page = consign.json(["ls", "--limit", "2"]);
    assert_eq!((ids(&page), &page["next"]), (vec![4, 3], &json!(3)));
    assert_stable("ls", &consign.run(["ls"]).expect(0).stdout);
    let ran = consign.run(["ls", "--state", "dead"]).expect(0);
    let headings = ran.stdout.lines().next().unwrap_or_default();
    assert!(headings.ends_with("code      reason"), "{ran:#?}");
    assert!(
        ran.stdout.ends_with("http_404  the sink said http_404\n"),
        "{ran:#?}"
    );
    let ran = consign.run(["ls", "--limit", "1"]).expect(0);
    assert_eq!(ran.stderr, "more: --before 4\n");
    let ran = consign.run(["ls", "--state", "held"]).expect(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("", "no messages match\n")
    );
}

#[tokio::test]
async fn a_filter_that_cannot_match_is_refused() {
    let consign = mixed().await;
    let ran = consign.run(["ls", "--queue", "male"]).expect(3);
    assert!(ran.stderr.contains(r#"did you mean "mail"?"#), "{ran:#?}");
    let ran = consign.run(["ls", "--state", "deed"]).expect(2);
    assert!(ran.stderr.contains("dead"), "{ran:#?}");
    consign.run(["ls", "--limit", "0"]).expect(2);
    consign.run(["ls", "--limit", "1001"]).expect(2);
}

#[tokio::test]
async fn a_message_is_shown_with_its_attempts_and_what_was_done_to_it() {
    let consign = mixed().await;
    consign
        .run([
            "requeue",
            "2",
            "--reason",
            "the page is back",
            "--actor",
            "olga",
        ])
        .expect(0);
    assert_stable(
        "show_delivered",
        &consign.run(["show", "1"]).expect(0).stdout,
    );
    let requeued = consign.run(["show", "2"]).expect(0).stdout;
    assert!(
        !requeued.contains('\u{1b}'),
        "a payload cannot steer the terminal"
    );
    assert_stable("show_requeued", &requeued);
    assert_stable("show_new", &consign.run(["show", "3"]).expect(0).stdout);

    let shown = consign.json(["show", "2"]);
    assert_eq!(shown["attempts"][0]["outcome"], "dead");
    assert_eq!(shown["attempts"][0]["code"], "http_404");
    assert_eq!(
        shown["attempts"][0].get("token"),
        None,
        "a token is a permission"
    );
    assert_eq!(shown["audit"][0]["actor"], "olga");
    assert_eq!(shown["audit"][0]["reason"], "the page is back");
}

#[tokio::test]
async fn every_state_is_explained() {
    let consign = mixed().await;
    consign.run(["pause", "mail"]).expect(0);
    consign
        .run(["hold", "3", "--reason", "legal asks"])
        .expect(0);
    let explain = |id: &str| consign.run(["explain", id]).expect(0).stdout;
    assert_stable("explain_delivered", &explain("1"));
    assert_stable("explain_dead", &explain("2"));
    assert_stable("explain_held", &explain("3"));
    assert_stable("explain_paused", &explain("4"));
    let explained = consign.json(["explain", "2"]);
    assert_eq!(explained["id"], 2);
    assert_eq!(explained["state"]["code"], "http_404");
    assert_eq!(explained["attempts"], 1);
    assert_eq!(explained["queue"]["name"], "default");
    let sentence = explained["sentence"].as_str().unwrap();
    assert!(sentence.contains("consign requeue 2"), "{sentence}");
}

#[test]
fn an_unknown_message_is_not_found() {
    let consign = Consign::new();
    for command in ["show", "explain"] {
        let ran = consign.run([command, "77"]).expect(4);
        assert_eq!(
            ran.stderr,
            "consign: message 77 does not exist; `consign ls` lists existing ones\n"
        );
        let (code, _) = consign.run([command, "77", "--json"]).expect(4).error();
        assert_eq!(code, "no_such_message");
        consign.run([command, "seven"]).expect(2);
    }
}

#[tokio::test]
async fn leases_show_who_holds_what_without_the_token() {
    let consign = Consign::new();
    assert_eq!(
        consign.run(["leases"]).expect(0).stderr,
        "nothing is leased\n"
    );
    consign.enqueue_one();
    let store = consign.store().await;
    let claim = Claim::new(queue("default"), "worker-1", 10);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    store
        .begin(lease.token, &[lease.messages[0].message.id])
        .await
        .unwrap();
    let listed = consign.run(["leases"]).expect(0).stdout;
    assert_stable("leases", &listed.replace(&lease.token.shown(), "[token]"));
    let ran = consign.run(["leases", "--json"]).expect(0);
    assert!(!ran.stdout.contains(&lease.token.to_string()), "{ran:#?}");
    let item = &ran.json()["items"][0];
    assert_eq!(item["owner"], "worker-1");
    assert_eq!(item["ids"], json!([1]));
    assert_eq!(item["begun"], json!([1]));
    let prefix = item["token_prefix"].as_str().unwrap();
    assert!(lease.token.to_string().starts_with(prefix) && prefix.len() == 8);
    consign.run(["leases", "end", prefix]).expect(2);
    let why = ["--reason", "its host is gone"];
    let ran = consign
        .run(["leases", "end", prefix, why[0], why[1]])
        .expect(0);
    assert_eq!(
        ran.stderr,
        "lease 1 of worker-1 in queue default was ended; 1 message came back\n"
    );
    consign
        .run(["leases", "end", prefix, why[0], why[1]])
        .expect(4);
    assert_eq!(
        consign.run(["leases"]).expect(0).stderr,
        "nothing is leased\n"
    );
}

#[test]
fn doctor_hints_at_sessions_that_the_hashes_of_tokens_are_enough_for() {
    let consign = Consign::new();
    let hash = "0".repeat(64);
    let token =
        format!("[server.tokens.olga]\nhash = \"sha256:{hash}\"\nscopes = [\"operator\"]\n");
    consign.configure(&token);
    let told = consign.json(["doctor"]);
    assert_eq!(told["findings"], json!([]), "a hint is no finding");
    let hint = told["hints"][0].as_str().unwrap();
    assert!(hint.starts_with("server.session_key"), "{hint}");
    let ran = consign.run(["doctor"]).expect(0);
    assert!(ran.stdout.contains("hint: server.session_key"), "{ran:?}");
    let key = "k".repeat(32);
    consign.configure(&format!("[server]\nsession_key = \"{key}\"\n{token}"));
    assert!(consign.json(["doctor"])["hints"].is_null());
    let shown = consign.run(["config", "show"]).expect(0).stdout;
    assert!(!shown.contains(&key), "{shown}");
    consign.configure("[server]\nsession_key = \"short\"\n");
    let ran = consign.run(["config", "check"]);
    assert!(ran.stderr.contains("server.session_key"), "{ran:?}");
    assert!(ran.stderr.contains("at least 32 bytes"), "{ran:?}");
}

#[tokio::test]
async fn doctor_is_content_with_a_sound_database_and_names_what_is_wrong_with_another() {
    let consign = mixed().await;
    let ran = consign.run(["doctor"]).expect(0);
    assert_eq!(
        ran.stdout,
        "All is well: every message is in exactly one state.\n"
    );
    assert_eq!(consign.json(["doctor"]), json!({"findings": []}));
    consign.sql("DELETE FROM ready").await;
    let ran = consign.run(["doctor"]).expect(1);
    assert!(ran.stdout.contains("messages: "), "{ran:#?}");
    assert!(ran.stdout.contains("remedy: "), "{ran:#?}");
    let ran = consign.run(["doctor", "--json"]).expect(1);
    let findings = ran.json()["findings"].clone();
    let lost = findings
        .as_array()
        .unwrap()
        .iter()
        .any(|finding| finding["ids"].as_array().unwrap().contains(&json!(3)));
    assert!(lost, "message 3 is nowhere: {findings}");
    assert_eq!(ran.stderr, "", "findings are a result, not an error");
}

/// Payloads, evidence and results are for the user that runs consign.
#[test]
fn files_are_their_owners_only_and_doctor_names_those_that_are_not() {
    use std::os::unix::fs::PermissionsExt;
    let consign = Consign::unmigrated();
    let at = |name: &str| consign.folder().join(name);
    let mut command = Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_consign");
    let run =
        format!("umask 022; {binary} migrate && {binary} enqueue 1 && {binary} doctor --json");
    command
        .current_dir(consign.folder())
        .env("CONSIGN_DATABASE_URL", consign.database())
        .args(["-c", &run]);
    let ran = finish(command, b"").expect(0);
    assert!(!ran.stdout.contains("hints"), "{ran:?}");
    let mode = |name: &str| std::fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("test.db"), 0o600);
    std::fs::set_permissions(at("test.db"), PermissionsExt::from_mode(0o644)).unwrap();
    let hints = consign.json(["doctor"])["hints"].clone();
    let hint = hints[0].as_str().unwrap();
    assert!(hint.contains("test.db (mode 0644): chmod 0600"), "{hint}");
    assert_eq!(mode("test.db"), 0o644, "doctor changes nothing");

    for mirrors in ["consign-mirrors", "elsewhere"] {
        std::fs::create_dir(at(mirrors)).unwrap();
        std::fs::set_permissions(at(mirrors), PermissionsExt::from_mode(0o755)).unwrap();
        let hints = consign.json(["doctor"])["hints"].to_string();
        let hint = format!("{mirrors} (mode 0755): chmod 0700");
        assert!(hints.contains(&hint), "{hints}");
        consign.configure("[scm]\nmirrors_root = \"elsewhere\"\n");
    }
}

/// A key that reverses what follows it would make one message look like another.
#[test]
fn no_table_shows_text_that_turns_around() {
    let consign = Consign::new();
    let key = "a\u{202e}b\u{9b}2J";
    consign.run(["enqueue", "1", "--key", key]).expect(0);
    for arguments in [&["ls"][..], &["show", "1"]] {
        let ran = consign.run(arguments.iter().copied()).expect(0);
        assert!(ran.stdout.contains(r"a\u{202e}b\u{9b}2J"), "{ran:?}");
        let all = ran.stdout + &ran.stderr;
        assert!(!all.contains(['\u{202e}', '\u{9b}']), "{all}");
    }
    assert_eq!(consign.json(["show", "1"])["message"]["key"], key, "exact");
}
