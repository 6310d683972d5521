//! The steps of a random life: what is done, to what, in words that fit any store.
//!
//! Steps name messages and leases by position among those that exist when the step runs, so every
//! sequence is valid, whatever was cut out of it.

use std::time::Duration;

use consign_kernel::{OnUncertain, Outcome, RedriveAction, Resolution};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::rules::Change;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Op {
    Enqueue(Vec<Draft>),
    /// A call with more messages than a batch may hold.
    EnqueueMany {
        queue: usize,
        count: usize,
    },
    Claim {
        queue: usize,
        limit: u32,
        ttl_s: Option<u64>,
        owner: u8,
    },
    ReserveSlots {
        queue: usize,
        count: u32,
    },
    Renew {
        lease: LeaseIndex,
        ttl_s: u64,
    },
    Release {
        lease: LeaseIndex,
    },
    Begin {
        lease: LeaseIndex,
        picks: Vec<Pick>,
    },
    Settle {
        lease: LeaseIndex,
        reports: Vec<ReportDraft>,
        /// Whether a message may be named twice, which is refused.
        twice: bool,
    },
    /// The last settle once more, as after a lost reply.
    Resettle,
    /// Results reported too late, or not too late.
    RecordLate {
        lease: LeaseIndex,
        reports: Vec<ReportDraft>,
        twice: bool,
    },
    Expire {
        limit: u32,
    },
    Advance {
        ms: i64,
    },
    Pause {
        queue: usize,
    },
    Resume {
        queue: usize,
    },
    PutQueue {
        queue: usize,
        change: Change,
    },
    Requeue(Vec<u16>),
    Hold(Vec<u16>),
    Unhold(Vec<u16>),
    Resolve {
        ids: Vec<u16>,
        resolution: Resolution,
    },
    Discard(Vec<u16>),
    Cancel(Vec<u16>),
    Skip {
        queue: usize,
        group: u8,
    },
    StartRedrive {
        action: RedriveAction,
        queue: Option<usize>,
        code: Option<&'static str>,
        rate: Option<u32>,
        limit: Option<u64>,
    },
    StepRedrive {
        limit: u32,
    },
    RecordBreakerOpen {
        queue: usize,
    },
    StepAlerts {
        limit: u32,
    },
    /// By number, which is the same in all stores.
    StopRedrive(i64),
    ResumeRedrive(i64),
    PutSchedule {
        name: u8,
        queue: usize,
        group: Option<u8>,
        /// Its next tick, in seconds from now.
        next_s: i64,
        cron: &'static str,
    },
    /// The next tick of the schedule that is due first.
    Tick,
    PauseSchedule {
        name: u8,
        paused: bool,
    },
    RunSchedule(u8),
    RemoveSchedule(u8),
    /// Lets everything leave that is past its time, or that may while the database is too large.
    Leave {
        by_size: bool,
    },
    /// Records a pass of the maintenance, which counts closed ranges.
    RecordPass,
    ForgetKeys {
        limit: u32,
    },
    Erase(Vec<u16>),
    EraseKey {
        queue: usize,
        key: u8,
    },
    EraseCase {
        case: u8,
        after: Option<u16>,
    },
    Explain(u16),
    History(u16),
    Late(u16),
    List {
        queue: Option<usize>,
        state: usize,
        narrow: Narrow,
        before: Option<u16>,
        limit: u32,
    },
    DeadCauses {
        queue: Option<usize>,
        at_most: u64,
    },
    Dead {
        queue: Option<usize>,
        code: Option<&'static str>,
        before: Option<u16>,
        limit: u32,
    },
    Leases {
        limit: u32,
    },
    Audit {
        id: Option<u16>,
        limit: u32,
    },
}

/// What a list looks at one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Narrow {
    Nothing,
    Group(u8),
    Key,
    Header(u8),
    Since(u16),
    Until(u16),
}

/// A message to enqueue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    pub(super) queue: usize,
    pub(super) key: Option<u8>,
    pub(super) group: Option<u8>,
    pub(super) payload: u8,
    /// Its correlation id.
    pub(super) case: Option<u8>,
    pub(super) delay_s: u64,
    /// Due at this second after the start of the run instead.
    pub(super) at_s: Option<i64>,
    /// Expires at this second after the start of the run.
    pub(super) expires_s: Option<i64>,
}

/// Which lease: 0 is the newest, 1 the one before; most often a recent one.
pub(super) type LeaseIndex = usize;

/// Which message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pick {
    /// One the lease was given.
    Own(u8),
    /// One that another lease, so many before the newest, was given.
    Of(LeaseIndex, u8),
    /// Any that was ever enqueued.
    Any(u16),
}

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportDraft {
    pub(super) pick: Pick,
    pub(super) outcome: Outcome,
    pub(super) code: Option<&'static str>,
    pub(super) retry_in_s: Option<u64>,
}

impl Op {
    /// The same step with less in it: each once smaller.
    pub(super) fn smaller(&self) -> Vec<Self> {
        match self {
            Self::Enqueue(drafts) => without_one(drafts).map(Self::Enqueue).collect(),
            Self::Settle {
                lease,
                reports,
                twice,
            } => without_one(reports)
                .map(|reports| Self::Settle {
                    lease: *lease,
                    reports,
                    twice: *twice,
                })
                .collect(),
            Self::RecordLate {
                lease,
                reports,
                twice,
            } => without_one(reports)
                .map(|reports| Self::RecordLate {
                    lease: *lease,
                    reports,
                    twice: *twice,
                })
                .collect(),
            Self::Begin { lease, picks } => without_one(picks)
                .map(|picks| Self::Begin {
                    lease: *lease,
                    picks,
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

fn without_one<T: Clone>(items: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..items.len()).map(|left_out| {
        let mut fewer = items.to_vec();
        fewer.remove(left_out);
        fewer
    })
}

/// A life of this many steps.
pub(super) fn life(ops: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(
        prop_oneof![3 => produce(), 10 => work(), 4 => operate(), 1 => read()],
        ops,
    )
}

fn queue() -> std::ops::Range<usize> {
    0..3
}

fn draft() -> impl Strategy<Value = Draft> {
    let key = option::weighted(0.3, 0..6_u8);
    let group = option::weighted(0.7, 0..3_u8);
    // A payload follows from its key but for a few, which conflict.
    let payload = prop_oneof![9 => Just(0_u8), 1 => Just(1)];
    let delay_s = prop_oneof![4 => Just(0_u64), 1 => Just(2), 1 => Just(7)];
    let at_s = option::weighted(0.1, -5..60_i64);
    let case = option::weighted(0.3, 0..3_u8);
    let expires_s = option::weighted(0.15, 0..60_i64);
    let draft = (queue(), key, group, payload, case, delay_s, at_s, expires_s);
    draft.prop_map(
        |(queue, key, group, payload, case, delay_s, at_s, expires_s)| {
            // A key belongs to one group, or nearly every repeat would conflict.
            let group = key.map_or(group, |key| Some(key % 3));
            Draft {
                queue,
                key,
                group,
                payload,
                case,
                delay_s,
                at_s,
                expires_s,
            }
        },
    )
}

fn produce() -> impl Strategy<Value = Op> {
    let many =
        (queue(), 150..450_usize).prop_map(|(queue, count)| Op::EnqueueMany { queue, count });
    prop_oneof![40 => vec(draft(), 0..8).prop_map(Op::Enqueue), 1 => many]
}

fn back() -> impl Strategy<Value = LeaseIndex> {
    prop_oneof![8 => Just(0_usize), 4 => 1..4_usize, 1 => 4..40_usize]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        24 => any::<u8>().prop_map(Pick::Own),
        2 => (0..3_usize, any::<u8>()).prop_map(|(back, index)| Pick::Of(back, index)),
        1 => any::<u16>().prop_map(Pick::Any)
    ]
}

fn report_draft() -> impl Strategy<Value = ReportDraft> {
    use Outcome::{Dead, Delivered, Retry, Uncertain};
    let outcome = prop_oneof![
        4 => Just(Delivered), 6 => Just(Retry), 1 => Just(Dead), 4 => Just(Uncertain)
    ];
    let code = option::weighted(0.25, select(vec!["busy", "gone", "lease_expired"]));
    let retry_in_s = option::weighted(0.2, select(vec![0_u64, 0, 3, 30]));
    (pick(), outcome, code, retry_in_s).prop_map(|(pick, outcome, code, retry_in_s)| ReportDraft {
        pick,
        outcome,
        code,
        retry_in_s,
    })
}

fn work() -> impl Strategy<Value = Op> {
    let limit = prop_oneof![6 => 1..8_u32, 1 => Just(1_000_u32)];
    let ttl_s = option::weighted(0.3, select(vec![1_u64, 3, 20]));
    let claim =
        (queue(), limit, ttl_s, 0..3_u8).prop_map(|(queue, limit, ttl_s, owner)| Op::Claim {
            queue,
            limit,
            ttl_s,
            owner,
        });
    let slots = (queue(), select(vec![0_u32, 1, 1, 20]));
    let slots = slots.prop_map(|(queue, count)| Op::ReserveSlots { queue, count });
    let renew = (back(), select(vec![1_u64, 6, 30]));
    let renew = renew.prop_map(|(lease, ttl_s)| Op::Renew { lease, ttl_s });
    let begin = (back(), vec(pick(), 0..4)).prop_map(|(lease, picks)| Op::Begin { lease, picks });
    let twice = || prop::bool::weighted(0.05);
    let settle = (back(), vec(report_draft(), 0..8), twice());
    let settle = settle.prop_map(|(lease, reports, twice)| Op::Settle {
        lease,
        reports,
        twice,
    });
    let record_late = (back(), vec(report_draft(), 0..5), twice());
    let record_late = record_late.prop_map(|(lease, reports, twice)| Op::RecordLate {
        lease,
        reports,
        twice,
    });
    let ms = prop_oneof![
        8 => select(vec![1_i64, 500, 500, 1_000, 1_000, 2_000]),
        2 => select(vec![5_000_i64, 6_000, 21_000]),
        1 => select(vec![-700_i64, -4_000])
    ];
    prop_oneof![
        8 => claim,
        1 => slots,
        1 => renew,
        1 => back().prop_map(|lease| Op::Release { lease }),
        2 => begin,
        9 => settle,
        1 => Just(Op::Resettle),
        2 => record_late,
        2 => select(vec![0_u32, 1, 2, 100]).prop_map(|limit| Op::Expire { limit }),
        4 => ms.prop_map(|ms| Op::Advance { ms }),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    use OnUncertain::{Hold, Probe, Resend};
    let on_uncertain = select(vec![Hold, Probe, Resend]).prop_map(Change::OnUncertain);
    prop_oneof![
        3 => Just(Change::Original),
        2 => select(vec![0_u64, 2, 10]).prop_map(Change::KeepSeconds),
        1 => (1..4_u32).prop_map(Change::AttemptsMax),
        1 => Just(Change::NoAlerts),
        2 => (1..5_u32).prop_map(Change::TotalConcurrency),
        1 => select(vec![1_u32, 3, 10_000]).prop_map(Change::TotalRate),
        1 => Just(Change::FlipOrdered),
        1 => Just(Change::FlipOnDead),
        1 => on_uncertain,
    ]
}

fn resolution() -> impl Strategy<Value = Resolution> {
    let result = Some("{}".to_owned());
    select(vec![
        Resolution::DELIVERED,
        Resolution::DELIVERED,
        Resolution::Dead,
        Resolution::Dead,
        Resolution::Unknown,
        Resolution::Delivered { result },
    ])
}

fn operate() -> impl Strategy<Value = Op> {
    let ids = || vec(any::<u16>(), 0..8);
    let code = option::weighted(
        0.2,
        select(vec!["gone", "lease_expired", "attempts_exhausted"]),
    );
    let rate = option::of(select(vec![1_u32, 3, 50]));
    let limit = option::weighted(0.3, 1..6_u64);
    use RedriveAction::{Cancel, Discard, Requeue};
    let action = select(vec![Requeue, Requeue, Requeue, Discard, Cancel]);
    let start = (action, option::of(queue()), code, rate, limit);
    let start = start.prop_map(|(action, queue, code, rate, limit)| Op::StartRedrive {
        action,
        queue,
        code,
        rate,
        limit,
    });
    let step = select(vec![1_u32, 2, 2, 100, 0]);
    let name = || 0..2_u8;
    let crons = select(vec!["* * * * *", "* * * * *", "0 * * * *"]);
    let group = option::of(0..3_u8);
    let put_schedule = (name(), queue(), group, -1..4_i64, crons);
    let put_schedule =
        put_schedule.prop_map(|(name, queue, group, next_s, cron)| Op::PutSchedule {
            name,
            queue,
            group,
            next_s,
            cron,
        });
    let pause = (name(), any::<bool>());
    let pause = pause.prop_map(|(name, paused)| Op::PauseSchedule { name, paused });
    prop_oneof![
        1 => start,
        2 => put_schedule,
        6 => Just(Op::Tick),
        1 => pause,
        1 => name().prop_map(Op::RunSchedule),
        1 => prop::bool::weighted(0.3).prop_map(|b| Op::RemoveSchedule(b.into())),
        4 => step.prop_map(|limit| Op::StepRedrive { limit }),
        1 => queue().prop_map(|queue| Op::RecordBreakerOpen { queue }),
        4 => select(vec![1_u32, 3, 100, 0]).prop_map(|limit| Op::StepAlerts { limit }),
        1 => (1..4_i64).prop_map(Op::StopRedrive),
        1 => (1..4_i64).prop_map(Op::ResumeRedrive),
        8 => prop::bool::weighted(0.2).prop_map(|by_size| Op::Leave { by_size }),
        1 => Just(Op::RecordPass),
        1 => select(vec![0_u32, 1, 100]).prop_map(|limit| Op::ForgetKeys { limit }),
        // Many, since few messages are final at a time.
        5 => vec(any::<u16>(), 0..32).prop_map(Op::Erase),
        1 => (queue(), 0..6_u8).prop_map(|(queue, key)| Op::EraseKey { queue, key }),
        1 => (0..3_u8, option::weighted(0.2, any::<u16>()))
            .prop_map(|(case, after)| Op::EraseCase { case, after }),
        1 => queue().prop_map(|queue| Op::Pause { queue }),
        2 => queue().prop_map(|queue| Op::Resume { queue }),
        2 => (queue(), change()).prop_map(|(queue, change)| Op::PutQueue { queue, change }),
        4 => ids().prop_map(Op::Requeue),
        2 => ids().prop_map(Op::Hold),
        2 => ids().prop_map(Op::Discard),
        1 => vec(any::<u16>(), 0..3).prop_map(Op::Cancel),
        1 => (queue(), 0..3_u8).prop_map(|(queue, group)| Op::Skip { queue, group }),
        3 => ids().prop_map(Op::Unhold),
        2 => (ids(), resolution()).prop_map(|(ids, resolution)| Op::Resolve { ids, resolution }),
    ]
}

fn read() -> impl Strategy<Value = Op> {
    let limit = || select(vec![0_u32, 1, 3, 1_000]);
    let before = || option::of(any::<u16>());
    let some_queue = || option::of(queue());
    let list = (some_queue(), 0..9_usize, narrow(), before(), limit());
    let list = list.prop_map(|(queue, state, narrow, before, limit)| Op::List {
        queue,
        state,
        narrow,
        before,
        limit,
    });
    let code = option::of(select(vec!["gone", "lease_expired", "attempts_exhausted"]));
    let dead = (some_queue(), code, before(), limit());
    let dead = dead.prop_map(|(queue, code, before, limit)| Op::Dead {
        queue,
        code,
        before,
        limit,
    });
    let causes = (some_queue(), select(vec![0_u64, 2, u64::MAX]));
    let causes = causes.prop_map(|(queue, at_most)| Op::DeadCauses { queue, at_most });
    let audit = (option::of(any::<u16>()), limit());
    prop_oneof![
        1 => any::<u16>().prop_map(Op::Explain),
        1 => any::<u16>().prop_map(Op::History),
        1 => any::<u16>().prop_map(Op::Late),
        2 => list,
        1 => dead,
        1 => causes,
        1 => limit().prop_map(|limit| Op::Leases { limit }),
        1 => audit.prop_map(|(id, limit)| Op::Audit { id, limit }),
    ]
}

fn narrow() -> impl Strategy<Value = Narrow> {
    prop_oneof![
        4 => Just(Narrow::Nothing),
        1 => (0..3_u8).prop_map(Narrow::Group),
        1 => Just(Narrow::Key),
        1 => (0..3_u8).prop_map(Narrow::Header),
        1 => any::<u16>().prop_map(Narrow::Since),
        1 => any::<u16>().prop_map(Narrow::Until),
    ]
}

/// Whole seconds.
pub(super) fn s(count: u64) -> Duration {
    Duration::from_secs(count)
}
