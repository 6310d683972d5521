//! Hostile repositories.

use std::{fs, os::unix::fs::PermissionsExt};

use consign_scm::NoHooks;

use crate::stage::{Stage, Work};

/// Settings that name a program.
const PROGRAMS: [&str; 17] = [
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.sshCommand",
    "core.askPass",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "gpg.program",
    "credential.helper",
    "uploadpack.packObjectsHook",
    "sequence.editor",
];

/// Everything that a repository's configuration, attributes or hooks can name as a program is named
/// here, and none of it runs.
#[tokio::test]
async fn nothing_that_a_repository_names_is_run() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let mark = stage.path("mark");
    let script = stage.path("script");
    fs::write(
        &script,
        format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", mark.display()),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let program = script.to_str().unwrap();
    work.commit(
        ".gitattributes",
        "* diff=evil filter=evil merge=evil\n",
        "Attributes",
    );
    work.commits(2);
    fs::write(
        work.0.join(".git/info/attributes"),
        "* diff=evil filter=evil\n",
    )
    .unwrap();
    for name in PROGRAMS {
        work.git(&["config", name, program]);
    }
    work.git(&["config", "log.showSignature", "true"]);
    work.git(&["config", "diff.noprefix", "true"]);
    work.git(&["config", "extensions.partialClone", "evil"]);
    work.git(&["config", "remote.evil.url", &format!("ext::{program}")]);
    work.git(&["config", "remote.evil.promisor", "true"]);
    for hook in [
        "post-checkout",
        "reference-transaction",
        "pre-auto-gc",
        "post-index-change",
    ] {
        fs::create_dir_all(work.0.join(".git/hooks")).unwrap();
        fs::copy(&script, work.0.join(".git/hooks").join(hook)).unwrap();
    }
    drop(fs::remove_file(&mark));
    for url in [work.url().to_owned(), format!("file://{}", work.url())] {
        let repo = stage.add(&url, None).await;
        assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
        let source = consign_scm::open(&repo, &stage.options).unwrap();
        let run = stage.synchronizer(&repo, &*source, &NoHooks);
        assert_eq!(run.materialize(None, None).await.unwrap().fetched, 3);
        assert!(
            !mark.exists(),
            "{url}: {}",
            fs::read_to_string(&mark).unwrap()
        );
        let head = work.head();
        let patch = consign_scm::ScmLedger::patch(&stage.store, repo.repo_id, &head).await;
        let key = patch.unwrap().unwrap().uri.unwrap();
        let diff = stage.artifacts.get(&key, 1 << 20).await.unwrap();
        let diff = String::from_utf8(diff).unwrap();
        assert!(
            diff.starts_with("diff --git a/counter b/counter\n"),
            "{diff}"
        );
    }
}

/// Missing objects of a partial clone are not fetched from the repository's remote.
#[tokio::test]
async fn what_is_missing_is_not_fetched_from_elsewhere() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(2);
    let mark = stage.path("mark");
    let evil = format!("ext::sh -c \"touch% {}\"", mark.display());
    work.git(&["config", "core.repositoryFormatVersion", "1"]);
    work.git(&["config", "extensions.partialClone", "evil"]);
    work.git(&["config", "remote.evil.url", &evil]);
    work.git(&["config", "protocol.ext.allow", "always"]);
    let tree = work.git(&["rev-parse", &format!("{}^{{tree}}", commits[1])]);
    fs::remove_file(
        work.0
            .join(format!(".git/objects/{}/{}", &tree[..2], &tree[2..])),
    )
    .unwrap();
    let repo = stage.add(work.url(), None).await;
    let error = stage.sync(&repo).await.unwrap_err();
    assert_eq!(error.code(), "SCM_PROTOCOL", "{error}");
    assert!(!mark.exists());
}

#[tokio::test]
async fn names_that_are_options_are_refused() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commits(1);
    let mark = stage.path("mark");
    let transport = format!("ext::touch {}", mark.display());
    let option = format!("--upload-pack=touch {}", mark.display());
    let repo = stage.add(work.url(), None).await;
    let branches = ["--output=x", "a:b", "..", "a b"];
    for url in [transport.as_str(), &option, "-x", "fd::3"] {
        let mut odd = repo.clone();
        odd.url = url.to_owned();
        let error = stage.sync(&odd).await.unwrap_err();
        assert_eq!(error.code(), "SCM_INVALID", "{url}");
    }
    for branch in branches {
        let mut odd = repo.clone();
        odd.default_branch = Some(branch.to_owned());
        let error = stage.sync(&odd).await.unwrap_err();
        assert_eq!(error.code(), "SCM_INVALID", "{branch}");
    }
    assert!(!mark.exists());
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let mut writer = consign_scm::PatchWriter::new(&stage.artifacts, 100);
    let refused = source.diff("--output=x", &mut writer).await.unwrap_err();
    assert_eq!(refused.code(), "SCM_INVALID");
}
