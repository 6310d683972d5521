//! What a worker does with a sink, in a few lines: it retries as the verdicts say.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use consign_kernel::{MessageId, Outcome};
use consign_testkit::eventually_some;
use consign_worker::{Delivery, Sink, Verdict};
use serde_json::json;
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
};

use crate::fixture::{DEADLINE, delivery_of};

/// Deliveries at once.
const CONCURRENCY: usize = 16;

/// How long each of many deliveries waits: a cluster that loses a node does not answer for it.
const IMPATIENCE: Duration = Duration::from_secs(3);

/// As long as a broker may need to return on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(150);

/// The delivery of one of many messages.
pub(crate) fn numbered(id: i64) -> Delivery {
    delivery_of(json!({ "number": id }), |message| {
        message.id = MessageId(id);
        message.key = None;
    })
}

/// The same message on its way once more.
pub(crate) fn again(delivery: &Delivery) -> Delivery {
    Delivery {
        attempt_no: delivery.attempt_no + 1,
        ..delivery.clone()
    }
}

/// What came of many deliveries.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Verdicts that were neither delivered nor uncertain.
    pub(crate) retries: usize,
    /// The messages that were in doubt at least once.
    pub(crate) doubted: BTreeSet<i64>,
}

/// Messages 1 to `count` on their way, delivered until each has arrived.
pub(crate) struct Run {
    count: usize,
    delivered: watch::Sender<usize>,
    tally: Mutex<Tally>,
}

impl Run {
    pub(crate) fn of(count: usize) -> Arc<Self> {
        Arc::new(Self {
            count,
            delivered: watch::Sender::default(),
            tally: Mutex::default(),
        })
    }

    /// Returns once as many messages have arrived.
    pub(crate) async fn reaches(&self, count: usize) {
        let mut delivered = self.delivered.subscribe();
        delivered.wait_for(|now| *now >= count).await.unwrap();
    }

    /// Delivers all messages.
    pub(crate) async fn through(self: &Arc<Self>, sink: &Arc<dyn Sink>) -> Tally {
        let next = Arc::new(AtomicUsize::new(1));
        let mut workers = JoinSet::new();
        for _ in 0..CONCURRENCY {
            let (run, sink, next) = (self.clone(), sink.clone(), next.clone());
            workers.spawn(async move {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id > run.count {
                        return;
                    }
                    run.until_delivered(&*sink, i64::try_from(id).unwrap())
                        .await;
                }
            });
        }
        workers.join_all().await;
        std::mem::take(&mut *self.tally.lock().await)
    }

    async fn until_delivered(&self, sink: &dyn Sink, id: i64) {
        let attempts = AtomicUsize::new(0);
        eventually_some("the message arrives", PATIENCE, || async {
            let mut delivery = numbered(id);
            delivery.timeout = IMPATIENCE;
            delivery.attempt_no = u32::try_from(attempts.fetch_add(1, Ordering::Relaxed)).unwrap();
            let verdict = sink.deliver(&delivery).await;
            match verdict.outcome {
                Outcome::Delivered => return Some(()),
                Outcome::Retry => self.tally.lock().await.retries += 1,
                Outcome::Uncertain => {
                    self.tally.lock().await.doubted.insert(id);
                }
                Outcome::Dead => panic!("{verdict:?}"),
            }
            None
        })
        .await;
        self.delivered.send_modify(|count| *count += 1);
    }
}

/// Checks that all of 1 to `count` are among `found`, and only doubted ones more than once.
pub(crate) fn nothing_lost(count: usize, found: &[i64], tally: &Tally) {
    let distinct: BTreeSet<i64> = found.iter().copied().collect();
    let expected: BTreeSet<i64> = (1..=i64::try_from(count).unwrap()).collect();
    assert_eq!(
        distinct, expected,
        "every message arrived, and no other: {tally:?}"
    );
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<i64> = found
        .iter()
        .copied()
        .filter(|id| !seen.insert(*id))
        .collect();
    let unexplained: Vec<i64> = twice.difference(&tally.doubted).copied().collect();
    assert!(
        unexplained.is_empty(),
        "twice without a doubt: {unexplained:?}"
    );
}

/// Checks outcome and code of a verdict.
#[track_caller]
pub(crate) fn is(verdict: &Verdict, outcome: Outcome, code: &str) {
    assert_eq!(verdict.outcome, outcome, "{verdict:?}");
    assert_eq!(verdict.code.as_deref(), Some(code), "{verdict:?}");
}

/// A file beside the tests.
pub(crate) fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", name]
        .iter()
        .collect()
}

/// A delivery that is given up at every point where it can be, `times` times.
pub(crate) async fn give_up(sink: &dyn Sink, times: u32) {
    for nth in 0..times {
        let limit = Duration::from_micros(u64::from(nth) * 100);
        let delivery = numbered(-1);
        let given_up = tokio::time::timeout(limit, sink.deliver(&delivery)).await;
        assert!(DEADLINE > limit, "{given_up:?}");
    }
}
