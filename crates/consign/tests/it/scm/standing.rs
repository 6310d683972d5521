//! How repositories stand, and what stopped them.

use serde_json::{Value, json};

use super::{first, repository::Git};
use crate::{orders::bench::on_one, support::finish};

/// A repository that was read, is gone, and is there again: at no time it looks fresher than it is.
#[test]
fn status_shows_why_the_last_sync_stopped() {
    on_one(async |bench| {
        let git = Git::new(&bench, "shop");
        git.commit(&["one"]);
        bench.consign.run(["scm", "add", "shop"]).expect(0);
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(
            (&status["synced_at"], &status["sync_stopped"]),
            (&Value::Null, &Value::Null)
        );
        bench.consign.run(["scm", "sync"]).expect(0);
        let synced_at = first(&bench, &["scm", "status"])["synced_at"].clone();
        assert!(synced_at.is_string(), "{synced_at}");

        let away = bench.consign.folder().join("away");
        std::fs::rename(git.path(), &away).unwrap();
        bench.consign.run(["scm", "sync"]).expect(4);
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(status["synced_at"], synced_at, "{status}");
        let stopped = &status["sync_stopped"];
        assert_eq!(stopped["code"], "SCM_NOT_FOUND", "{status}");
        assert!(stopped["at"].as_str() > synced_at.as_str(), "{status}");
        let told = bench.consign.run(["scm", "status"]).expect(0).stdout;
        assert!(told.contains("the last sync stopped"), "{told}");
        assert!(told.contains("SCM_NOT_FOUND: "), "{told}");
        assert!(told.contains("`consign scm sync 1` retries"), "{told}");

        std::fs::rename(&away, git.path()).unwrap();
        bench.consign.run(["scm", "sync"]).expect(0);
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(status["sync_stopped"], json!(null), "{status}");
        assert!(status["synced_at"].as_str() > synced_at.as_str());
    });
}

/// The same of a consumption; and where cards went is said once, with what to do about it.
#[test]
fn status_and_consume_show_what_blocks_cards() {
    on_one(async |bench| {
        for name in ["shop", "till"] {
            let git = Git::new(&bench, name);
            git.commit(&["one", "two"]);
            bench.consign.run(["scm", "add", name]).expect(0);
        }
        bench.consign.run(["scm", "sync"]).expect(0);
        let mut consume = bench.consign.command();
        consume.arg("--database").arg(bench.consign.database());
        consume.args(["scm", "consume", "1"]);
        consume.env("CONSIGN_SCM__ACTOR_USER_ID", "robot");
        consume.env("UNKNOWN_ACTOR_POLICY", "reject");
        finish(consume, b"").expect(1);
        let status = first(&bench, &["scm", "status"]);
        let stopped = &status["consume_stopped"];
        assert_eq!(stopped["code"], "ACTOR_UNKNOWN", "{status}");
        let message = stopped["message"].as_str().unwrap();
        assert!(message.starts_with("at git:1:"), "{message}");
        assert_eq!(status["consumed_at"], json!(null), "{status}");

        let limited = bench.consign.run(["scm", "consume", "1", "--limit", "1"]);
        limited.expect(0);
        let status = first(&bench, &["scm", "status"]);
        let known = (&status["consume_stopped"], &status["consumed_at"]);
        assert_eq!(known, (&json!(null), &json!(null)), "{status}");

        let ran = bench.consign.run(["scm", "consume"]).expect(0);
        let status = first(&bench, &["scm", "status"]);
        assert!(status["consumed_at"].is_string(), "{status}");
        let told: Vec<&str> = ran.stderr.lines().collect();
        assert_eq!(told.len(), 1, "once: {told:#?}");
        assert!(told[0].starts_with("3 cards stored in a private space"));
        let (_, command) = told[0].split_once("`consign memory call ").unwrap();
        let (command, _) = command.split_once('`').unwrap();
        let (tool, update) = command.split_once(' ').unwrap();
        let update = update.trim_matches('\'');
        bench
            .consign
            .run(["memory", "call", tool, update])
            .expect(0);
        bench
            .consign
            .run(["scm", "rewind", "1", "--to", "0", "--yes"])
            .expect(0);
        assert_eq!(first(&bench, &["scm", "consume", "1"])["stored"], 2);
    });
}
