//! Records that the database refuses.

use consign_scm::{Diffs, Mode, NoHooks};
use serde_json::json;

use super::script::{Script, commit, refused};
use crate::stage::Stage;

fn batches() -> Vec<Vec<consign_scm::NewCommit>> {
    let first = vec![commit(1), commit(2)];
    let second = vec![commit(3), refused(4), commit(5), commit(6), refused(7)];
    vec![first, second, vec![commit(8)]]
}

fn names(numbers: &[u64]) -> Vec<String> {
    numbers
        .iter()
        .map(|number| format!("{number:040x}"))
        .collect()
}

#[tokio::test]
async fn strictly_the_first_one_ends_it() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let script = Script::new(batches());
    for _ in 0..2 {
        let error = stage
            .synchronizer(&repo, &script, &NoHooks)
            .sync()
            .await
            .unwrap_err();
        assert_eq!(error.code(), "SCM_RECORD_REFUSED");
        assert!(
            error.to_string().contains(&names(&[4])[0]),
            "it is named: {error}"
        );
        let changes = stage.changes(&repo).await;
        let written: Vec<String> = changes
            .into_iter()
            .map(|change| change.rev_or_sha)
            .collect();
        assert_eq!(written, names(&[1, 2, 3]));
        assert_eq!(
            stage.watermark(&repo).await.place,
            *json!({"batch": 1}).as_object().unwrap()
        );
    }
    assert_eq!(stage.events().await, []);
}

#[tokio::test]
async fn with_best_effort_they_are_skipped_and_noted() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let script = Script::new(batches());
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.mode = Mode::BestEffort;
    let synced = run.sync().await.unwrap();
    assert_eq!((synced.written, synced.skipped), (6, 2));
    let changes = stage.changes(&repo).await;
    let written: Vec<String> = changes
        .into_iter()
        .map(|change| change.rev_or_sha)
        .collect();
    assert_eq!(
        written,
        names(&[1, 2, 3, 5, 6, 8]),
        "in the order of history"
    );
    assert_eq!(stage.watermark(&repo).await.place["batch"], json!(3));
    let events = stage.events().await;
    let skipped: Vec<_> = events
        .iter()
        .map(|(event, payload)| (event.as_str(), &payload["record"]))
        .collect();
    let [four, seven] = [4, 7].map(|number| json!(names(&[number])[0]));
    assert_eq!(
        skipped,
        [
            ("scm_record_skipped", &four),
            ("scm_record_skipped", &seven)
        ]
    );
}

/// There is no record that their changes could belong to.
#[tokio::test]
async fn changes_of_skipped_records_are_not_fetched() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let script = Script::new(batches());
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.mode = Mode::BestEffort;
    run.options.diffs = Diffs::Now;
    let synced = run.sync().await.unwrap();
    assert_eq!((synced.written, synced.skipped), (6, 2));
    assert_eq!((synced.patches.fetched, synced.patches.failed), (6, 0));
    assert_eq!(*script.requests.lock().unwrap(), names(&[1, 2, 3, 5, 6, 8]));
}

/// The first batch: there is no watermark yet, and afterwards it is the beginning.
#[tokio::test]
async fn a_first_batch_can_be_refused_as_well() {
    for (mode, code) in [
        (Mode::Strict, Some("SCM_RECORD_REFUSED")),
        (Mode::BestEffort, None),
    ] {
        let stage = Stage::new().await;
        let repo = stage.add("/scripted", None).await;
        let script = Script::new(vec![vec![commit(1), refused(2), commit(3)]]);
        let mut run = stage.synchronizer(&repo, &script, &NoHooks);
        run.options.mode = mode;
        let synced = run.sync().await;
        assert_eq!(synced.as_ref().err().map(consign_scm::ScmError::code), code);
        let place = stage.watermark(&repo).await.place;
        assert_eq!(place.contains_key("batch"), code.is_none(), "{place:?}");
        let whole = Script::new(vec![vec![commit(1), commit(2), commit(3)], vec![commit(4)]]);
        stage
            .synchronizer(&repo, &whole, &NoHooks)
            .sync()
            .await
            .unwrap();
        let expected = if code.is_some() { 4 } else { 3 };
        assert_eq!(stage.changes(&repo).await.len(), expected, "{mode:?}");
    }
}

/// A trigger of the owner's is as good a reason as any.
#[tokio::test]
async fn what_a_trigger_refuses_is_skipped_too() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let trigger = "CREATE TRIGGER no_fives BEFORE INSERT ON scm_git_commits
                   WHEN NEW.commit_sha LIKE '%5' BEGIN SELECT RAISE(ABORT, 'no fives here'); END";
    stage.sql(trigger).await;
    let batches = [1..=3, 4..=8].map(|numbers| numbers.map(commit).collect());
    let script = Script::new(batches.to_vec());
    let error = stage
        .synchronizer(&repo, &script, &NoHooks)
        .sync()
        .await
        .unwrap_err();
    assert_eq!(error.code(), "SCM_RECORD_REFUSED", "{error}");
    assert!(error.to_string().contains("no fives here"), "{error}");
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.mode = Mode::BestEffort;
    assert_eq!(run.sync().await.unwrap().skipped, 1);
    let changes = stage.changes(&repo).await;
    let written: Vec<String> = changes
        .into_iter()
        .map(|change| change.rev_or_sha)
        .collect();
    assert_eq!(written, names(&[1, 2, 3, 4, 6, 7, 8]));
    let events = stage.events().await;
    assert_eq!(events[0].1["error"], "no fives here", "{events:?}");
}
