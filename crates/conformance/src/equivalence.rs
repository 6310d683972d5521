//! Random lives lived twice: by the reference store and by the store under examination.

mod normal;
mod op;
mod rules;
mod side;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fmt,
};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use self::{
    op::{Op, Pick, ReportDraft},
    rules::Change,
    side::Side,
};
use crate::{Factory, ReferenceFactory};

/// Cases of an equivalence run; `CONSIGN_EQUIVALENCE_CASES` overrides it.
pub const EQUIVALENCE_CASES: u32 = 64;
/// Steps per case.
pub const EQUIVALENCE_OPS: usize = 60;

/// Tries at making a failing life shorter: each needs a fresh store.
const SHRINK_TRIES_MAX: usize = 600;

/// What a run must have met somewhere, or it has proved little.
const SIGHTS: [&str; 32] = [
    "SendSlots {",
    "reason: BreakerOpen",
    "reason: Died",
    "reason: QueueOld",
    "LeaseLost",
    "AlreadySettled",
    "NotInLease",
    "Settled(",
    "Renewed",
    "Released(",
    "Begun",
    "key_conflict",
    "queue_not_empty",
    "invalid_input",
    "duplicate: true",
    "in_doubt: true",
    "NotDead",
    "NotHeld",
    "NotHoldable",
    "NotDiscardable",
    "NotCancellable",
    "Discarded {",
    "attempts_exhausted",
    "expired_before_delivery",
    "Waiting",
    "outcome: Expired",
    "1 left",
    "NoSuchMessage",
    "answer: Erased",
    "NotFinal",
    "erased: true",
    "erased: Some",
];

/// Holds a store to the reference: `cases` random lives of `ops` steps, every answer compared.
///
/// Panics with the shortest life found that sets the two apart. `CONSIGN_EQUIVALENCE_CASES`
/// overrides `cases`; `CONSIGN_SEED` replays one life.
pub async fn equivalence(factory: &dyn Factory, cases: u32, ops: usize) {
    let cases = number("CONSIGN_EQUIVALENCE_CASES").map_or(cases, |cases| cases as u32);
    let (first, cases) = match number("CONSIGN_SEED") {
        Some(seed) => (seed, 1),
        None => (uuid::Uuid::new_v4().as_u64_pair().0 >> 16, cases),
    };
    // A short run may miss something; a run of the usual length goes on until it has met all.
    let usual = cases >= EQUIVALENCE_CASES && ops >= EQUIVALENCE_OPS;
    let cases_max = if usual { 4 * cases } else { cases };
    let mut sights = BTreeMap::new();
    let mut lives = 0;
    while lives < cases || (lives < cases_max && !unseen(&sights).is_empty()) {
        let seed = first + u64::from(lives);
        if let Some(difference) = examine(factory, seed, ops, &mut sights).await {
            panic!("{difference}");
        }
        lives += 1;
    }
    println!("{lives} lives of {ops} steps met {sights:?}");
    let unseen = unseen(&sights);
    assert!(!usual || unseen.is_empty(), "never met: {unseen:?}");
}

fn unseen(sights: &BTreeMap<&'static str, u32>) -> Vec<&'static str> {
    let mut unseen = SIGHTS.to_vec();
    unseen.retain(|sight| !sights.contains_key(sight));
    unseen
}

/// Looks for a life that sets a store apart from the reference, made as short as it gets.
pub async fn difference(
    factory: &dyn Factory,
    seeds: impl IntoIterator<Item = u64>,
    ops: usize,
) -> Option<Difference> {
    for seed in seeds {
        let found = examine(factory, seed, ops, &mut BTreeMap::new()).await;
        if found.is_some() {
            return found;
        }
    }
    None
}

/// A life that two stores live differently.
pub struct Difference {
    seed: u64,
    ops: Vec<Op>,
    split: Divergence,
}

impl Difference {
    /// How many steps it takes.
    pub fn steps(&self) -> usize {
        self.ops.len()
    }
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the store differs from the reference after:")?;
        for (n, op) in self.ops.iter().enumerate() {
            writeln!(f, "  {n:>3}  {op:?}")?;
        }
        writeln!(f, "first difference, {}:", self.split.at)?;
        writeln!(f, "reference: {}", self.split.reference)?;
        writeln!(f, "store:     {}", self.split.store)?;
        write!(
            f,
            "replay the life it was cut from with CONSIGN_SEED={}",
            self.seed
        )
    }
}

/// Two answers that should have been one.
struct Divergence {
    /// Number of the last step taken.
    step: usize,
    at: String,
    reference: String,
    store: String,
}

async fn examine(
    factory: &dyn Factory,
    seed: u64,
    ops: usize,
    sights: &mut BTreeMap<&'static str, u32>,
) -> Option<Difference> {
    let ops = generate(seed, ops);
    let replay = Replay { seed, ops: &ops };
    let split = live(factory, &ops, sights).await;
    drop(replay);
    let split = split?;
    println!(
        "life {seed} differs: {}\nreference: {}\nstore:     {}\nlooking for a shorter one",
        split.at, split.reference, split.store
    );
    let (ops, split) = shrink(factory, seed, ops, split).await;
    Some(Difference { seed, ops, split })
}

fn generate(seed: u64, ops: usize) -> Vec<Op> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = op::life(ops).new_tree(&mut runner);
    tree.expect("invariant: nothing is filtered, so nothing is rejected")
        .current()
}

/// Lives one life on both sides; answers with the first difference.
async fn live(
    factory: &dyn Factory,
    ops: &[Op],
    sights: &mut BTreeMap<&'static str, u32>,
) -> Option<Divergence> {
    let mut reference = Side::fresh(&ReferenceFactory::default()).await;
    let mut store = Side::fresh(factory).await;
    for (step, op) in ops.iter().enumerate() {
        let expected = reference.take(op).await;
        look(&expected, sights);
        let answers = (expected, store.take(op).await);
        if let Some(split) = compare(step, || format!("answer to step {step}"), answers) {
            return Some(split);
        }
        let counts = (reference.counts().await, store.counts().await);
        if let Some(split) = compare(step, || format!("counts after step {step}"), counts) {
            return Some(split);
        }
    }
    let last = ops.len().saturating_sub(1);
    let everything = reference.everything().await;
    everything.iter().for_each(|answer| look(answer, sights));
    for (n, answers) in everything
        .into_iter()
        .zip(store.everything().await)
        .enumerate()
    {
        let at = || format!("reading everything at the end, answer {n}");
        if let Some(split) = compare(last, at, answers) {
            return Some(split);
        }
    }
    drain(&mut reference, &mut store, last).await
}

/// Notes what can be seen in an answer of the reference.
fn look(answer: &str, sights: &mut BTreeMap<&'static str, u32>) {
    for sight in SIGHTS.into_iter().filter(|sight| answer.contains(sight)) {
        *sights.entry(sight).or_default() += 1;
    }
}

/// After the faults end, everything drains: dead messages requeued, held ones unheld.
async fn drain(reference: &mut Side, store: &mut Side, last: usize) -> Option<Divergence> {
    let ids: Vec<u16> = (0..reference.message_count() as u16).collect();
    let resumes = [0, 1, 2].map(|queue| Op::Resume { queue });
    // Without a limit of all processes, or a round delivers little.
    let change = Change::Original;
    let originals = [0, 1, 2].map(|queue| Op::PutQueue { queue, change });
    let mut ops = [resumes, originals].concat();
    // Each round delivers or discards at least the head of every group, and the last one nothing.
    for _ in 0..=2 * reference.message_count() {
        ops.extend([
            Op::Advance { ms: 3_600_000 },
            Op::Unhold(ids.clone()),
            Op::Requeue(ids.clone()),
        ]);
        for op in ops.drain(..) {
            let answers = (reference.take(&op).await, store.take(&op).await);
            if let Some(split) = compare(last, || format!("draining: {op:?}"), answers) {
                return Some(split);
            }
        }
        let mut idle = true;
        for queue in 0..3 {
            let claim = Op::Claim {
                queue,
                limit: 1_000,
                ttl_s: None,
                owner: 9,
            };
            let answers = (reference.take(&claim).await, store.take(&claim).await);
            if answers.0 != "None" {
                idle = false;
            } else if answers.1 == "None" {
                continue;
            }
            let at = || format!("draining queue {queue}");
            if let Some(split) = compare(last, at, answers) {
                return Some(split);
            }
            let settle = deliver_all(reference.newest_lease_len());
            let answers = (reference.take(&settle).await, store.take(&settle).await);
            if let Some(split) = compare(last, at, answers) {
                return Some(split);
            }
        }
        // A message may have died of its last lease in this round; the next one requeues it.
        if idle && reference.has_only_final_dead().await {
            // What has expired dies or is held again whenever it would be claimed.
            let discard = Op::Discard(ids.clone());
            let answers = (reference.take(&discard).await, store.take(&discard).await);
            let is_over = !answers.0.contains("Moved");
            if let Some(split) = compare(last, || "draining: discard".to_owned(), answers) {
                return Some(split);
            }
            if is_over {
                break;
            }
        }
    }
    let counts = (reference.counts().await, store.counts().await);
    assert!(reference.has_only_final_dead().await, "all drained");
    for place in ["waiting", "ready", "scheduled", "leased", "held"] {
        let empty = format!("{place}: 0,");
        assert_eq!(
            counts.0.matches(&empty).count(),
            3,
            "all drained: {}",
            counts.0
        );
    }
    compare(last, || "counts once drained".to_owned(), counts)
}

/// Settles a whole lease of up to 256 messages at a time; the rest comes back when it expires.
fn deliver_all(count: usize) -> Op {
    let report = |n: usize| ReportDraft {
        pick: Pick::Own(n as u8),
        outcome: consign_kernel::Outcome::Delivered,
        code: None,
        retry_in_s: None,
    };
    Op::Settle {
        lease: 0,
        reports: (0..count.min(256)).map(report).collect(),
        twice: false,
    }
}

fn compare(
    step: usize,
    at: impl Fn() -> String,
    (reference, store): (String, String),
) -> Option<Divergence> {
    let differs = reference != store;
    differs.then(|| Divergence {
        step,
        at: at(),
        reference,
        store,
    })
}

/// Cuts a failing life down: everything after the difference, then whatever is not needed for one.
async fn shrink(
    factory: &dyn Factory,
    seed: u64,
    mut ops: Vec<Op>,
    mut split: Divergence,
) -> (Vec<Op>, Divergence) {
    ops.truncate(split.step + 1);
    let mut tried = BTreeSet::new();
    let mut progress = true;
    while progress {
        progress = false;
        for candidate in shorter(&ops) {
            let new = tried.insert(format!("{candidate:?}"));
            if !new || tried.len() > SHRINK_TRIES_MAX {
                continue;
            }
            let replay = Replay {
                seed,
                ops: &candidate,
            };
            let still = live(factory, &candidate, &mut BTreeMap::new()).await;
            drop(replay);
            if let Some(found) = still {
                ops = candidate;
                ops.truncate(found.step + 1);
                split = found;
                progress = true;
                break;
            }
        }
    }
    (ops, split)
}

/// Lives with a stretch of steps left out, long stretches first, then with smaller steps.
fn shorter(ops: &[Op]) -> Vec<Vec<Op>> {
    let mut lives = Vec::new();
    let mut stretch = ops.len() / 2;
    while stretch > 0 {
        for from in (0..ops.len()).step_by(stretch) {
            let to = (from + stretch).min(ops.len());
            lives.push([&ops[..from], &ops[to..]].concat());
        }
        stretch /= 2;
    }
    for (n, op) in ops.iter().enumerate() {
        for smaller in op.smaller() {
            let mut life = ops.to_vec();
            life[n] = smaller;
            lives.push(life);
        }
    }
    lives
}

/// Prints how to replay a life that made a store panic.
struct Replay<'a> {
    seed: u64,
    ops: &'a [Op],
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "a store panicked in CONSIGN_SEED={}: {:#?}",
                self.seed, self.ops
            );
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text:?} is not a number")))
}
