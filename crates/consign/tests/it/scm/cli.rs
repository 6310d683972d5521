//! `consign scm` as people and scripts run it.

use serde_json::json;

use super::{first, open_team, repository::Git};
use crate::{
    orders::bench::{Kind, on_both, on_one},
    support::{Consign, finish},
};

#[test]
fn a_repository_is_added_read_and_consumed() {
    on_both(async |bench| {
        let git = Git::new(&bench, "shop");
        git.commit(&["one", "two"]);
        let add = [
            "scm",
            "add",
            "shop",
            "--project",
            "store",
            "--branch",
            "main",
        ];
        let repo = bench.consign.json(add);
        assert_eq!(repo["url"], json!(git.path()), "{repo}");
        assert_eq!(
            (&repo["provider"], &repo["project_key"]),
            (&json!("git"), &json!("store"))
        );
        let again = bench.consign.json(["scm", "add", git.path()]);
        assert_eq!(again, repo, "the same repository");

        let done = first(&bench, &["scm", "sync", git.path()]);
        assert_eq!(
            (&done["written"], &done["ok"]),
            (&json!(2), &json!(true)),
            "{done}"
        );
        open_team(&bench);
        let done = first(&bench, &["scm", "consume", "git"]);
        assert_eq!(
            (&done["stored"], &done["cards"]),
            (&json!(2), &json!(2)),
            "{done}"
        );
        let told = bench.consign.run(["scm", "status"]).expect(0).stdout;
        assert!(told.contains("store") && told.contains("shop"), "{told}");
        assert_eq!(
            bench.consign.json(["scm", "status", "svn"]),
            json!({"items": []})
        );

        let position = first(&bench, &["scm", "status"])["consumed_position"].to_string();
        let preview = bench.consign.json(["scm", "rewind", "1", "--to", "0"]);
        assert_eq!(
            (&preview["preview"], &preview["total"]),
            (&json!(true), &json!(2)),
            "{preview}"
        );
        let dry = ["scm", "rewind", "1", "--to", "0", "--yes", "--dry-run"];
        assert_eq!(bench.consign.json(dry)["preview"], true);
        assert_eq!(
            first(&bench, &["scm", "status"])["consumed_position"].to_string(),
            position
        );
        let (code, _) = bench
            .consign
            .run(["scm", "rewind", "1", "--to", "999999", "--json"])
            .expect(3)
            .error();
        assert_eq!(code, "SCM_INVALID");
    });
}

/// Every failure has its code and its exit code, and tells what to do.
#[test]
fn reports_failures_with_their_codes() {
    on_one(async |bench| {
        let refused = |arguments: &[&str], exit: i32| {
            let arguments = arguments.iter().copied().chain(["--json"]);
            bench.consign.run(arguments).expect(exit).error()
        };
        let (code, message) = refused(&["scm", "sync", "7"], 4);
        assert_eq!(code, "SCM_UNKNOWN_REPO");
        assert!(message.contains("consign scm add"), "{message}");
        let with_password = "https://me:s3cret@h.example/p";
        let (code, message) = refused(&["scm", "add", with_password], 3);
        assert_eq!(code, "SCM_INVALID");
        assert!(!message.contains("s3cret"), "{message}");
        let branch = ["scm", "add", "svn://h.example/r", "--branch", "x"];
        assert_eq!(refused(&branch, 3).0, "SCM_INVALID");
        bench
            .consign
            .run(["scm", "add", "x", "--project", "a b"])
            .expect(2);
        // What could never be read is not kept, and no secret is.
        for never in [
            &["https://h.example/p?private_token=s3cret"][..],
            &["https://h.example/p#s3cret"],
            &["me:s3cret@h.example:p"],
            &["ftp://h.example/p"],
            &["ext::x"],
            &["x", "--branch", "a..b"],
            &["ftp://h.example/p", "--provider", "svn"],
        ] {
            let (code, message) = refused(&[&["scm", "add"], never].concat(), 3);
            assert_eq!(code, "SCM_INVALID", "{never:?}");
            assert!(!message.contains("s3cret"), "{message}");
        }
        let none = json!({"items": []});
        assert_eq!(bench.consign.json(["scm", "status"]), none);

        bench.consign.run(["scm", "add", "nowhere"]).expect(0);
        let good = Git::new(&bench, "shop");
        good.commit(&["one"]);
        bench.consign.run(["scm", "add", "shop"]).expect(0);
        let ran = bench.consign.run(["scm", "sync", "--json"]).expect(4);
        let items = ran.json()["items"].clone();
        assert_eq!(items[0]["error"]["code"], "SCM_NOT_FOUND", "{items}");
        assert_eq!(items[1]["written"], 1, "the others go on: {items}");

        // The policy of a new project sends facts to a private space; an unknown actor stops it.
        let mut sync = bench.consign.command();
        sync.arg("--database").arg(bench.consign.database());
        sync.args(["--json", "scm", "consume"]);
        sync.env("CONSIGN_SCM__ACTOR_USER_ID", "robot");
        sync.env("UNKNOWN_ACTOR_POLICY", "reject");
        let ran = crate::support::finish(sync, b"").expect(1);
        let stopped = ran.json()["items"][1]["stopped"].clone();
        assert_eq!(stopped["code"], "SCM_CONSUME_STOPPED", "{stopped}");
        assert_eq!(stopped["reason"], "ACTOR_UNKNOWN", "{stopped}");
        let done = bench.consign.json(["scm", "consume"]);
        assert_eq!(done["items"][1]["redirected"], 1, "{done}");
    });
}

/// What a repository is read as stays; it need not be said again.
#[test]
fn a_repository_is_of_one_kind() {
    on_one(async |bench| {
        let url = "https://h.example/g/p";
        let added = bench
            .consign
            .json(["scm", "add", url, "--provider", "gitlab"]);
        let other = ["scm", "add", url, "--provider", "git", "--json"];
        let (code, message) = bench.consign.run(other).expect(3).error();
        assert_eq!(code, "SCM_INVALID");
        assert!(message.contains("with provider gitlab"), "{message}");
        let again = bench.consign.json(["scm", "add", url, "--project", "q"]);
        assert_eq!(
            (&again["repo_id"], &again["provider"], &again["project_key"]),
            (&added["repo_id"], &json!("gitlab"), &json!("q"))
        );
    });
}

/// An empty repository is no failure, and leaves nothing behind.
#[test]
fn an_empty_repository_is_fine() {
    on_one(async |bench| {
        Git::new(&bench, "empty");
        bench.consign.run(["scm", "add", "empty"]).expect(0);
        let done = first(&bench, &["scm", "sync"]);
        assert_eq!(
            (&done["written"], &done["ok"]),
            (&json!(0), &json!(true)),
            "{done}"
        );
        let status = first(&bench, &["scm", "status"]);
        assert_eq!(status["watermarks"], json!({}), "{status}");
        assert_eq!(first(&bench, &["scm", "consume"])["cards"], 0);
    });
}

/// A role of the database may add repositories; it must not read what only this process can reach.
#[test]
fn what_a_role_added_is_read_where_the_settings_allow_it() {
    on_both(async |bench| {
        if bench.kind == Kind::Sqlite {
            return;
        }
        let local = Git::new(&bench, "local");
        local.commit(&["one"]);
        let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        inside.set_nonblocking(true).unwrap();
        let url = format!("http://{}/r.git", inside.local_addr().unwrap());
        let add = format!(
            "SET ROLE consign_operator; SELECT scm.add_repo('git', '{}'); SELECT scm.add_repo('git', '{url}')",
            local.path(),
        );
        bench.sql().await.try_run(&add).await.unwrap();
        let sync = |roots: Option<&str>| {
            let mut command = bench.consign.command();
            command.env_remove("CONSIGN_SCM__ALLOW");
            command.env_remove("CONSIGN_SCM__LOCAL_ROOTS");
            command.envs(roots.map(|roots| ("CONSIGN_SCM__LOCAL_ROOTS", roots)));
            command.args([
                "--database",
                bench.consign.database(),
                "scm",
                "sync",
                "--json",
            ]);
            finish(command, b"").expect(3).json()
        };
        let refused = sync(None);
        for item in refused["items"].as_array().unwrap() {
            assert!(item.to_string().contains("SCM_NOT_ALLOWED"), "{item}");
        }
        let read = sync(Some(local.path()));
        assert_eq!(read["items"][0]["written"], 1, "{read}");
        assert!(inside.accept().is_err(), "somebody was asked inside");
    });
}

/// The environment may hold tokens and passwords that are none of its business.
#[test]
fn svn_sees_little_of_the_environment() {
    let consign = Consign::new();
    let (folder, bin) = (consign.folder(), consign.folder().join("bin"));
    std::fs::create_dir(&bin).unwrap();
    let script = format!("#!/bin/sh\nenv > {}/seen\nexit 1\n", folder.display());
    std::fs::write(bin.join("svn"), script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("svn"), executable).unwrap();
    consign.run(["scm", "add", "svn://127.0.0.1:1/r"]).expect(0);
    let mut command = consign.command();
    let path = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("AWS_SECRET_ACCESS_KEY", "hunter2")
        .env("CONSIGN_DATABASE_URL", consign.database())
        .args(["scm", "sync"]);
    finish(command, b"");
    let seen = std::fs::read_to_string(folder.join("seen")).unwrap();
    assert!(
        seen.contains("PATH=") && seen.contains("LC_ALL=C.UTF-8"),
        "{seen}"
    );
    assert!(
        !seen.contains("hunter2") && !seen.contains("CONSIGN_"),
        "{seen}"
    );
}
