//! A project of a GitLab server, from the command line.

#[expect(
    dead_code,
    unused_imports,
    reason = "most of what it can be told to do is for the tests of the library"
)]
#[path = "../../../../../apps/scm/tests/it/gitlab/fake.rs"]
mod fake;

use serde_json::{Value, json};

use self::fake::{Gitlab, TOKEN};
use super::first;
use crate::orders::bench::on_one;

#[test]
fn a_project_is_added_and_read_until_its_token_expires() {
    on_one(async |mut bench| {
        let gitlab = Gitlab::start().await;
        gitlab.world().push("main", 3);
        gitlab.world().touch(7, "opened", fake::world_at(0));
        let url = gitlab.url();
        let add = ["scm", "add", &url, "--provider", "gitlab", "--project", "p"];
        let added = bench.consign.json(add);
        assert_eq!(added["provider"], "gitlab", "{added}");
        let host = url.split('/').nth(2).unwrap().to_owned();

        // Nobody told it who we are.
        let ran = bench.consign.run(["scm", "sync", "--json"]).expect(1);
        let error = ran.json()["items"][0]["error"].clone();
        assert_eq!(error["code"], "SCM_AUTH_FAILED", "{error}");
        bench.configure(&format!("[scm.tokens]\n{host:?} = {TOKEN:?}\n"));
        let done = first(&bench, &["scm", "sync"]);
        // Three commits and a merge request.
        assert_eq!(done["written"], 4, "{done}");
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(
            (&status["changes"], &status["sync_stopped"]),
            (&json!(3), &Value::Null)
        );
        let synced_at = status["synced_at"].clone();

        // It expires in the middle: told at once, with what to do, and without the token.
        gitlab.world().push("main", 2);
        gitlab.world().expires_after = Some(1);
        let requests_before = gitlab.requests().len();
        assert!(requests_before > 0);
        let ran = bench.consign.run(["scm", "sync"]).expect(1);
        assert_eq!(gitlab.requests().len(), 2, "it is not tried again");
        assert!(ran.stderr.contains("SCM_AUTH_FAILED"), "{ran:?}");
        assert!(ran.stderr.contains("scm.tokens"), "{ran:?}");
        let told = bench.consign.run(["scm", "status"]).expect(0).stdout;
        assert!(told.contains("the last sync stopped"), "{told}");
        assert!(told.contains("SCM_AUTH_FAILED"), "{told}");
        for told in [&ran.stdout, &ran.stderr, &told] {
            assert!(!told.contains(TOKEN), "{told}");
        }
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(status["synced_at"], synced_at, "{status}");

        gitlab.world().expires_after = None;
        assert_eq!(first(&bench, &["scm", "sync", "gitlab"])["written"], 2);
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(status["sync_stopped"], Value::Null, "{status}");
    });
}
