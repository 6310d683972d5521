//! `serve` looks after repositories by itself.

use consign_testkit::{eventually, eventually_some};
use serde_json::json;

use super::{SOON, first, open_team, repository::Git};
use crate::{
    http,
    orders::bench::{Bench, on_both},
    service::Service,
};

async fn metrics(service: &Service) -> String {
    http::get(service.address(), "/metrics").await.body
}

fn unconsumed(bench: &Bench, repo: usize) -> serde_json::Value {
    bench.consign.json(["scm", "status"])["items"][repo]["unconsumed"].clone()
}

/// One repository is broken, the other is read, fetched and made memories of; what comes later too.
#[test]
fn serve_looks_after_all_repositories_and_ends_in_good_order() {
    on_both(async |mut bench| {
        bench.configure("[scm]\nevery_seconds = 1\n");
        open_team(&bench);
        let git = Git::new(&bench, "shop");
        git.commit(&["one"]);
        let gone = bench.consign.folder().join("gone.git");
        bench
            .consign
            .run(["scm", "add", gone.to_str().unwrap()])
            .expect(0);
        bench.consign.run(["scm", "add", git.path()]).expect(0);
        let service = bench.serve().await;
        eventually("the first commit is consumed", SOON, async || {
            let status = bench.consign.json(["scm", "status"])["items"][1].clone();
            status["changes"] == 1 && status["unconsumed"] == 0 && status["patches_here"] == 1
        })
        .await;
        git.commit(&["two", "three"]);
        eventually("the next ones are", SOON, async || {
            let status = bench.consign.json(["scm", "status"])["items"][1].clone();
            status["changes"] == 3 && status["unconsumed"] == 0
        })
        .await;
        service.logs("SCM_NOT_FOUND").await;
        let wanted = [
            r#"consign_scm_cards_total{repo="2",outcome="stored"} 3"#,
            r#"consign_scm_syncs_total{repo="1",result="SCM_NOT_FOUND"}"#,
            r#"consign_scm_syncs_total{repo="2",result="ok"}"#,
            "consign_scm_repositories 2",
            r#"consign_scm_unconsumed_changes{repo="2"} 0"#,
            r#"consign_scm_sync_age_seconds{repo="2"}"#,
        ];
        eventually("metrics tell", SOON, async || {
            let metrics = metrics(&service).await;
            wanted.iter().all(|line| metrics.contains(line))
        })
        .await;
        assert_eq!(unconsumed(&bench, 0), json!(0));
        service.stop().await;
        bench.doctor();
    });
}

/// A card in hand is brought to its end; the next start goes on behind it.
#[test]
fn serve_stops_after_the_current_card() {
    on_both(async |mut bench| {
        bench.configure("[scm]\nevery_seconds = 3600\nmaterialize_max = 0\n");
        open_team(&bench);
        let git = Git::new(&bench, "shop");
        let messages: Vec<String> = (0..60).map(|number| format!("commit {number}.")).collect();
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        git.commit(&messages);
        bench.consign.run(["scm", "add", git.path()]).expect(0);
        let service = bench.serve().await;
        eventually("some are consumed", SOON, async || {
            first(&bench, &["scm", "status"])["consumed_position"] != 0
        })
        .await;
        service.stop().await;
        let before = first(&bench, &["scm", "status"]);
        let left = before["unconsumed"].as_u64().unwrap();
        let done = first(&bench, &["scm", "consume"]);
        assert_eq!(done["stored"], json!(left), "{before} {done}");
        assert_eq!(done["deduplicated"], 0, "{done}");
        bench.doctor();
    });
}

/// What was in the way before is still what status tells: a process that ends is not in the way.
#[test]
fn a_stop_of_serve_keeps_the_recorded_failure_of_the_last_sync() {
    on_both(async |mut bench| {
        let git = Git::new(&bench, "shop");
        git.commit(&["one"]);
        bench.consign.run(["scm", "add", git.path()]).expect(0);
        let head = std::path::Path::new(git.path()).join(".git/HEAD");
        std::fs::remove_file(&head).unwrap();
        bench.consign.run(["scm", "sync"]).expect(4);
        let before = first(&bench, &["scm", "status"])["sync_stopped"].clone();
        assert_eq!(before["code"], "SCM_NOT_FOUND", "{before}");

        // Whoever reads it waits for somebody to write.
        let made = std::process::Command::new("mkfifo").arg(&head).status();
        assert!(made.unwrap().success());
        bench.configure("[scm]\nevery_seconds = 3600\n");
        let service = bench.serve().await;
        let writer = eventually_some("a synchronisation is under way", SOON, async || {
            let pipe = tokio::net::unix::pipe::OpenOptions::new();
            pipe.open_sender(&head).ok()
        })
        .await;
        service.stop().await;
        drop(writer);
        let after = first(&bench, &["scm", "status"])["sync_stopped"].clone();
        assert_eq!(after, before);
    });
}
