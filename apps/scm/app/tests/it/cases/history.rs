//! The order of history.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use consign_scm::{Batch, LedgerError, Provider, Records, ScmLedger, Stream};
use tokio::task::JoinSet;

use super::fixture::{ScmFixture, commit, commits, mark, names, revision, sha};
use super::{Harness, all};

const ROUNDS: u64 = 30;

/// Whatever the names and times of commits, positions count in the order they came in.
pub(crate) async fn positions_follow_the_order_of_history(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    fixture.record("1", commits([9, 3, 7])).await;
    fixture.record("2", commits([8, 3, 1, 2])).await;
    let changes = fixture.changes(0).await;
    let expected: Vec<String> = [9, 3, 7, 8, 1, 2].into_iter().map(sha).collect();
    assert_eq!(names(&changes), expected);
    let positions: Vec<i64> = changes.iter().map(|change| change.position).collect();
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    assert!(positions[0] > 0, "0 is before all of them");
    for (index, position) in positions.iter().enumerate() {
        let rest = fixture.changes(*position).await;
        assert_eq!(names(&rest), expected[index + 1..], "after {position}");
    }
    let first = fixture.ledger.changes(fixture.id(), positions[1], 2).await;
    assert_eq!(names(&first.expect("changes answers")), expected[2..4]);

    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    svn.record("r5", Records::Revisions(vec![revision(2), revision(5)]))
        .await;
    svn.record("r11", Records::Revisions(vec![revision(11)]))
        .await;
    let positions: Vec<i64> = svn.changes(2).await.iter().map(|c| c.position).collect();
    assert_eq!(positions, [5, 11], "by number, not by text");
}

/// Two batches from the same watermark: one is written, the other fails.
pub(crate) async fn of_two_that_record_at_once_one_wins(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let other = harness.another().await;
    for round in 1..=ROUNDS {
        let from = fixture.watermark().await;
        let mut tasks = JoinSet::new();
        for n in 0..4_u64 {
            let ledger = Arc::clone(if n % 2 == 0 { &fixture.ledger } else { &other });
            let batch = Batch {
                repo_id: fixture.id(),
                stream: Stream::Git,
                from: from.clone(),
                to: mark(&format!("{round}.{n}")),
                records: commits([100 * round + n]),
            };
            tasks.spawn(async move { (n, ledger.record(&batch).await) });
        }
        let mut winners = Vec::new();
        for (n, answer) in all(tasks).await {
            match answer {
                Ok(recorded) => winners.push((n, recorded.written)),
                Err(LedgerError::Moved { .. }) => {}
                Err(error) => panic!("expected Moved: {error}"),
            }
        }
        let [(winner, 1)] = winners[..] else {
            panic!("one wins: {winners:?}");
        };
        let place = mark(&format!("{round}.{winner}"));
        assert_eq!(fixture.watermark().await, Some(place));
        let last = fixture.changes(0).await.pop().expect("a commit");
        assert_eq!(last.rev_or_sha, sha(100 * round + winner));
    }
    assert_eq!(fixture.changes(0).await.len() as u64, ROUNDS);
}

async fn record_all(ledger: Arc<dyn ScmLedger>, repo_id: i64, stream: Stream, first: u64) {
    let mut from = None;
    for round in 0..ROUNDS {
        let to = mark(&round.to_string());
        let records = (0..5).map(|n| commit(first + 10 * round + n)).collect();
        let batch = Batch {
            repo_id,
            stream,
            from: from.replace(to.clone()),
            to,
            records: Records::Commits(records),
        };
        ledger.record(&batch).await.expect("record answers");
    }
}

/// A position that was seen is never followed by a smaller one: who goes on from the last one seen has
/// seen all.
pub(crate) async fn a_reader_misses_nothing_while_two_record(harness: &dyn Harness) {
    let fixture = ScmFixture::of(harness, Provider::Gitlab, Stream::Gitlab).await;
    let other = harness.another().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let (reader, done, id) = (
        Arc::clone(&fixture.ledger),
        Arc::clone(&is_over),
        fixture.id(),
    );
    let reading = tokio::spawn(async move {
        let (mut after, mut seen) = (0, BTreeSet::new());
        loop {
            let is_last = done.load(Ordering::SeqCst);
            let changes = reader.changes(id, after, 3).await.expect("changes answers");
            for change in &changes {
                assert!(change.position > after, "in order");
                after = change.position;
                seen.insert(change.rev_or_sha.clone());
            }
            if is_last && changes.is_empty() {
                return seen;
            }
        }
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(record_all(
        Arc::clone(&fixture.ledger),
        id,
        Stream::Git,
        1_000,
    ));
    tasks.spawn(record_all(other, id, Stream::Gitlab, 5_000));
    all(tasks).await;
    is_over.store(true, Ordering::SeqCst);
    let seen = reading.await.expect("the reader does not panic");
    let expected: BTreeSet<String> = names(&fixture.changes(0).await).into_iter().collect();
    assert_eq!(seen.len() as u64, 2 * 5 * ROUNDS);
    assert_eq!(seen, expected);
}
