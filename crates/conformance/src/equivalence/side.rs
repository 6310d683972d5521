//! One of the two stores, living a life step by step.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use consign_kernel::{
    By, CORRELATION_ID, Claim, DepartureCause, Due, ErasureTarget, Error, Filter, Lease, MessageId,
    NewMessage, QueueName, QueuePolicy, Receipt, RedriveId, RedrivePlan, Report, Result, Schedule,
    ScheduleName, SchedulePlan, StateKind, Store, Tick, TickPlan, Token,
    codes::EXPIRED_BEFORE_DELIVERY,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use uuid::Uuid;

use super::{
    normal::{Names, Normal},
    op::{Draft, Narrow, Op, Pick, ReportDraft, s},
    rules::{ALERTS, queues},
};
use crate::{Factory, Harness, stage::Maintenance};

/// A store and what has been seen of it.
pub(super) struct Side {
    harness: Box<dyn Harness>,
    store: Arc<dyn Store>,
    names: Names,
    messages: Vec<MessageId>,
    leases: Vec<(Token, Vec<MessageId>)>,
    last_settle: (Token, Vec<Report>),
    maintenance: Maintenance,
}

fn by() -> By {
    By::new("operator", "equivalence")
}

impl Side {
    /// What operators and processes do about schedules.
    async fn schedule(&mut self, op: &Op) -> String {
        let store = Arc::clone(&self.store);
        match op {
            Op::PutSchedule {
                name,
                queue,
                group,
                next_s,
                cron,
            } => {
                let queue = queues()[*queue].0.clone();
                let plan = SchedulePlan {
                    group: group.map(|group| format!("group-{group}")),
                    ..SchedulePlan::new(queue, *cron, json!({ "scheduled": name }))
                };
                // A tick is a whole second.
                let now = self.harness.now().await.as_second();
                let next_at = Timestamp::from_second(now + next_s).expect("in the calendar");
                let name = schedule(*name);
                self.render(store.put_schedule(&name, &plan, next_at, &by()).await)
            }
            Op::Tick => self.tick().await,
            Op::PauseSchedule { name, paused } => {
                let name = schedule(*name);
                let changed = if *paused {
                    store.pause_schedule(&name, &by()).await
                } else {
                    store.resume_schedule(&name, &by()).await
                };
                self.render(changed)
            }
            Op::RunSchedule(name) => {
                let ran = store.run_schedule(&schedule(*name), &by()).await;
                if let Ok(ran) = &ran {
                    self.enqueued(ran);
                }
                self.render(ran)
            }
            Op::RemoveSchedule(name) => {
                self.render(store.remove_schedule(&schedule(*name), &by()).await)
            }
            op => unreachable!("not about schedules: {op:?}"),
        }
    }

    /// Takes the tick that is due first, if one is.
    async fn tick(&mut self) -> String {
        let store = Arc::clone(&self.store);
        let upcoming = store.upcoming(None, 1).await.expect("upcoming answers");
        let Some(from) = upcoming.ticks.into_iter().next() else {
            return "no schedule".to_owned();
        };
        let at = from.at;
        let plan = TickPlan {
            ticks: vec![Tick { at, missed: 0 }],
            missed: 0,
            dropped: 0,
            next_at: at + SignedDuration::from_secs(3),
            from,
        };
        let ticked = store.tick(&plan).await;
        if let Ok(Some(schedule)) = &ticked {
            self.enqueued(schedule);
        }
        self.render(ticked)
    }

    /// Remembers the message of a schedule.
    fn enqueued(&mut self, schedule: &Schedule) {
        let id = schedule.last_message_id.expect("it has enqueued a message");
        self.names.add_message(id);
        self.messages.push(id);
    }

    /// A fresh store with the three queues.
    pub(super) async fn fresh(factory: &dyn Factory) -> Self {
        let harness = factory.fresh().await;
        let store = harness.store();
        let alerts = (alerts(), QueuePolicy::default());
        for (name, policy) in [alerts].into_iter().chain(queues()) {
            let made = store.put_queue(&name, &policy, &by()).await;
            made.expect("the queues can be made");
        }
        let start = harness.now().await;
        let maintenance = Maintenance::lease(&store).await;
        Self {
            harness,
            maintenance,
            store,
            names: Names::new(start),
            messages: Vec::new(),
            leases: Vec::new(),
            last_settle: (unknown_token(), Vec::new()),
        }
    }

    /// Takes a step and answers in words both stores must agree on.
    pub(super) async fn take(&mut self, op: &Op) -> String {
        let store = self.store.clone();
        match op {
            Op::Enqueue(drafts) => {
                let start = self.names.start;
                let messages = drafts.iter().map(|draft| message(draft, start));
                let messages: Vec<NewMessage> = messages.collect();
                self.enqueue(&messages).await
            }
            Op::EnqueueMany { queue, count } => {
                let queue = &queues()[*queue].0;
                let message = |n| NewMessage::new(queue.clone(), json!(n));
                let messages: Vec<NewMessage> = (0..*count).map(message).collect();
                self.enqueue(&messages).await
            }
            Op::Claim {
                queue,
                limit,
                ttl_s,
                owner,
            } => {
                let queue = queues()[*queue].0.clone();
                let claim = Claim {
                    ttl: ttl_s.map(s),
                    ..Claim::new(queue, format!("owner-{owner}"), *limit)
                };
                self.claim(&claim).await
            }
            Op::ReserveSlots { queue, count } => {
                let queue = &queues()[*queue].0;
                self.render(store.reserve_slots(queue, *count).await)
            }
            Op::Renew { lease, ttl_s } => {
                self.render(store.renew(self.lease(*lease).0, s(*ttl_s)).await)
            }
            Op::Release { lease } => self.render(store.release(self.lease(*lease).0).await),
            Op::Begin { lease, picks } => {
                let (token, own) = self.lease(*lease);
                let ids: Vec<MessageId> = picks.iter().map(|pick| self.pick(*pick, &own)).collect();
                self.render(store.begin(token, &ids).await)
            }
            Op::Settle {
                lease,
                reports,
                twice,
            } => {
                let (token, reports) = self.reports(*lease, reports, *twice);
                self.last_settle = (token, reports.clone());
                self.render(store.settle(token, &reports).await)
            }
            Op::RecordLate {
                lease,
                reports,
                twice,
            } => {
                let (token, reports) = self.reports(*lease, reports, *twice);
                self.render(store.record_late(token, &reports).await)
            }
            Op::Resettle => {
                let (token, reports) = &self.last_settle;
                self.render(store.settle(*token, reports).await)
            }
            Op::Expire { limit } => self.render(store.expire(*limit).await),
            Op::Advance { ms } => {
                self.harness.advance(SignedDuration::from_millis(*ms)).await;
                format!("{:?}", self.harness.now().await.normal(&self.names))
            }
            Op::StepAlerts { limit } => self.step_alerts(*limit).await,
            _ => self.operate(op).await,
        }
    }

    /// Takes a step, and numbers the messages that it enqueued.
    async fn step_alerts(&mut self, limit: u32) -> String {
        let answer = self.store.step_alerts(limit).await;
        let raised = answer.as_ref().map_or(0, |step| step.raised.len() as u32);
        let filter = Filter {
            queue: Some(alerts()),
            ..Filter::default()
        };
        let listed = self.store.list(&filter, None, raised).await;
        for message in listed.expect("list answers").items.iter().rev() {
            self.names.add_message(message.id);
        }
        self.render(answer)
    }

    async fn maintain(&self, op: &Op) -> String {
        let store = &self.store;
        match op {
            Op::Leave { by_size } => {
                let cause = if *by_size {
                    DepartureCause::Size
                } else {
                    DepartureCause::Age
                };
                self.harness.hurry_departures().await;
                let left = self.maintenance.leave_by(cause).await;
                format!("{left} left, {}", self.histories().await)
            }
            Op::RecordPass => {
                self.maintenance.renew().await;
                let recorded = store.record_pass(self.maintenance.token, "done").await;
                format!("{recorded:?}, {}", self.histories().await)
            }
            Op::ForgetKeys { limit } => {
                self.maintenance.renew().await;
                let forgotten = store.forget_keys(self.maintenance.token, *limit).await;
                format!("{forgotten:?}")
            }
            _ => unreachable!("not a step of the maintenance: {op:?}"),
        }
    }

    async fn operate(&mut self, op: &Op) -> String {
        let store = &self.store;
        match op {
            Op::Pause { queue } => self.render(store.pause(&queues()[*queue].0, &by()).await),
            Op::Resume { queue } => self.render(store.resume(&queues()[*queue].0, &by()).await),
            Op::PutQueue { queue, change } => {
                let (name, policy) = &queues()[*queue];
                self.render(store.put_queue(name, &change.of(policy), &by()).await)
            }
            Op::Requeue(ids) => self.render(store.requeue(&self.messages_at(ids), &by()).await),
            Op::Hold(ids) => self.render(store.hold(&self.messages_at(ids), &by()).await),
            Op::Unhold(ids) => self.render(store.unhold(&self.messages_at(ids), &by()).await),
            Op::Resolve { ids, resolution } => {
                let ids = self.messages_at(ids);
                self.render(store.resolve(&ids, resolution, &by()).await)
            }
            Op::Discard(ids) => self.render(store.discard(&self.messages_at(ids), &by()).await),
            Op::Cancel(ids) => self.render(store.cancel(&self.messages_at(ids), &by()).await),
            Op::Skip { queue, group } => {
                let group = format!("group-{group}");
                self.render(store.skip(&queues()[*queue].0, &group, &by()).await)
            }
            Op::StartRedrive {
                action,
                queue,
                code,
                rate,
                limit,
            } => {
                let plan = RedrivePlan {
                    action: *action,
                    queue: queue.map(|queue| queues()[queue].0.clone()),
                    code: code.map(str::to_owned),
                    rate_per_second: *rate,
                    limit: *limit,
                };
                self.render(store.start_redrive(&plan, &by()).await)
            }
            Op::PutSchedule { .. }
            | Op::Tick
            | Op::PauseSchedule { .. }
            | Op::RunSchedule(_)
            | Op::RemoveSchedule(_) => self.schedule(op).await,
            Op::StepRedrive { limit } => self.render(store.step_redrive(*limit).await),
            Op::RecordBreakerOpen { queue } => {
                let queue = &queues()[*queue].0;
                let recorded = store.record_breaker_open(queue, Some("busy")).await;
                format!("{recorded:?}")
            }
            Op::StopRedrive(id) => self.render(store.stop_redrive(RedriveId(*id), &by()).await),
            Op::ResumeRedrive(id) => self.render(store.resume_redrive(RedriveId(*id), &by()).await),
            Op::Leave { .. } | Op::RecordPass | Op::ForgetKeys { .. } => self.maintain(op).await,
            op => self.look(op).await,
        }
    }

    async fn look(&mut self, op: &Op) -> String {
        let store = &self.store;
        match op {
            Op::Explain(id) => self.render(store.explain(self.message_at(*id)).await),
            Op::History(id) => self.render(store.history(self.message_at(*id)).await),
            Op::Late(id) => self.render(store.late(self.message_at(*id)).await),
            Op::List {
                queue,
                state,
                narrow,
                before,
                limit,
            } => {
                let filter = Filter {
                    queue: queue.map(|queue| queues()[queue].0.clone()),
                    state: StateKind::ALL.get(*state).copied(),
                    ..self.narrowed(*narrow).await
                };
                let before = before.map(|id| self.message_at(id));
                self.render(store.list(&filter, before, *limit).await)
            }
            Op::DeadCauses { queue, at_most } => {
                let filter = Filter {
                    queue: queue.map(|queue| queues()[queue].0.clone()),
                    ..Filter::default()
                };
                self.render(store.dead_causes(&filter, *at_most).await)
            }
            Op::Dead {
                queue,
                code,
                before,
                limit,
            } => {
                let filter = Filter {
                    queue: queue.map(|queue| queues()[queue].0.clone()),
                    code: code.map(str::to_owned),
                    ..Filter::default()
                };
                let before = before.map(|id| self.message_at(id));
                self.render(store.dead(&filter, before, *limit).await)
            }
            Op::Leases { limit } => self.render(store.leases(*limit).await),
            Op::Audit { id, limit } => self.audit(id.map(|id| self.message_at(id)), *limit).await,
            op => self.erase(op).await,
        }
    }

    async fn narrowed(&self, narrow: Narrow) -> Filter {
        let (mut filter, text) = (Filter::default(), |word, n| Some(format!("{word}-{n}")));
        match narrow {
            Narrow::Nothing => {}
            Narrow::Group(n) => filter.group = text("group", n),
            Narrow::Key => filter.key_prefix = Some("key-".into()),
            Narrow::Header(n) => {
                let case = (CORRELATION_ID.to_owned(), format!("case-{n}"));
                filter.headers.extend([case]);
            }
            Narrow::Since(id) => filter.since = self.enqueued_at(id).await,
            Narrow::Until(id) => filter.until = self.enqueued_at(id).await,
        }
        filter
    }

    async fn enqueued_at(&self, id: u16) -> Option<Timestamp> {
        let found = self.store.explain(self.message_at(id)).await;
        let found = found.expect("explain answers");
        found.map(|it| it.message.created_at)
    }

    /// How many messages of each queue are where.
    pub(super) async fn counts(&self) -> String {
        let queues = self.store.queues(None, 1_000).await.map(|mut queues| {
            // A queue the store itself creates is its own business; the alerts are never claimed.
            queues.retain(|(queue, _)| !["default", ALERTS].contains(&queue.name.as_str()));
            queues
        });
        self.render(queues)
    }

    /// Everything that can be read, one answer each; of a long life the first messages only.
    pub(super) async fn everything(&self) -> Vec<String> {
        let mut answers = Vec::new();
        for id in self.messages.iter().take(100) {
            answers.push(self.render(self.store.explain(*id).await));
            answers.push(self.render(self.store.history(*id).await));
            answers.push(self.render(self.store.late(*id).await));
        }
        let all = Filter::default();
        answers.push(self.render(self.store.list(&all, None, 1_000).await));
        answers.push(self.render(self.store.dead(&all, None, 1_000).await));
        answers.push(self.render(self.store.leases(1_000).await));
        answers.push(self.render(self.store.redrives(100).await));
        answers.push(self.audit(None, 1_000).await);
        answers.push(self.render(self.store.due_erasures(1_000).await));
        answers.push(self.histories().await);
        answers.push(self.render(self.store.doctor().await));
        answers
    }

    /// The history of every queue, with its totals.
    async fn histories(&self) -> String {
        let history = self.store.queue_history().await.map(|mut history| {
            history.retain(|history| history.queue.as_str() != "default");
            history
        });
        self.render(history)
    }

    /// How many messages have been enqueued.
    pub(super) fn message_count(&self) -> usize {
        self.messages.len()
    }

    /// How many messages the newest lease was given.
    pub(super) fn newest_lease_len(&self) -> usize {
        self.leases.last().map_or(0, |(_, ids)| ids.len())
    }

    async fn enqueue(&mut self, messages: &[NewMessage]) -> String {
        let answer = self.store.enqueue(messages).await;
        for Receipt { id, duplicate, .. } in answer.iter().flatten() {
            if !duplicate {
                self.messages.push(*id);
                self.names.add_message(*id);
            }
        }
        self.render(answer)
    }

    async fn claim(&mut self, claim: &Claim) -> String {
        let answer = self.store.claim(claim).await;
        if let Ok(Some(Lease {
            token,
            fence,
            messages,
            ..
        })) = &answer
        {
            let ids = messages.iter().map(|m| m.message.id).collect();
            self.leases.push((*token, ids));
            self.names.add_lease(*fence, *token);
        }
        self.render(answer)
    }

    async fn erase(&self, op: &Op) -> String {
        let target = match op {
            Op::Erase(ids) => ErasureTarget::Ids(self.messages_at(ids)),
            Op::EraseKey { queue, key } => ErasureTarget::Key {
                queue: queues()[*queue].0.clone(),
                key: format!("key-{key}"),
            },
            Op::EraseCase { case, after } => ErasureTarget::Correlation {
                id: format!("case-{case}"),
                after: after.map(|after| self.message_at(after)),
            },
            other => unreachable!("invariant: `take` handles {other:?}"),
        };
        self.render(self.store.erase(&target, &by()).await)
    }

    /// Whether every dead message was erased or has expired: the others can be requeued and delivered.
    pub(super) async fn has_only_final_dead(&self) -> bool {
        let filter = Filter {
            state: Some(StateKind::Dead),
            ..Filter::default()
        };
        let dead = self.store.list(&filter, None, 1_000).await;
        let mut dead = dead.expect("list answers").items.into_iter();
        dead.all(|message| {
            message.erased || message.code.as_deref() == Some(EXPIRED_BEFORE_DELIVERY)
        })
    }

    async fn audit(&self, id: Option<MessageId>, limit: u32) -> String {
        // Stores remove what leaves in as many departures as they have ranges of ids.
        let more = limit.saturating_add(1_000);
        let entries = self.store.audit(id, None, more).await.map(|mut entries| {
            let falling = entries.windows(2).all(|pair| pair[0].id > pair[1].id);
            assert!(falling, "audit runs from the newest: {entries:?}");
            entries.retain(|entry| entry.queue.as_ref().is_none_or(|l| l.as_str() != "default"));
            entries.retain(|entry| entry.action != "depart");
            entries.truncate(limit as usize);
            entries
        });
        self.render(entries)
    }

    fn render<T: Normal + Debug>(&self, answer: Result<T>) -> String {
        match answer {
            Ok(answer) => format!("{:#?}", answer.normal(&self.names)),
            Err(Error::KeyConflict { queue, key, id }) => {
                let id = id.normal(&self.names);
                format!("Error key_conflict {queue} {key} {id:?}")
            }
            Err(error @ Error::Unavailable { .. }) => panic!("the store failed: {error:?}"),
            Err(error) => format!("Error {}", error.code()),
        }
    }

    /// The lease this many steps back from the newest, or one that does not exist.
    fn lease(&self, back: usize) -> (Token, Vec<MessageId>) {
        match self.leases.len() {
            0 => (unknown_token(), Vec::new()),
            count => self.leases[count - 1 - back % count].clone(),
        }
    }

    fn message_at(&self, index: u16) -> MessageId {
        match self.messages.len() {
            0 => MessageId(i64::MAX),
            count => self.messages[usize::from(index) % count],
        }
    }

    fn messages_at(&self, indices: &[u16]) -> Vec<MessageId> {
        indices
            .iter()
            .map(|index| self.message_at(*index))
            .collect()
    }

    fn pick(&self, pick: Pick, own: &[MessageId]) -> MessageId {
        match pick {
            Pick::Own(index) if !own.is_empty() => own[usize::from(index) % own.len()],
            Pick::Own(index) => self.message_at(index.into()),
            Pick::Of(back, index) => match self.lease(back).1.as_slice() {
                [] => self.message_at(index.into()),
                theirs => theirs[usize::from(index) % theirs.len()],
            },
            Pick::Any(index) => self.message_at(index),
        }
    }

    fn reports(&self, lease: usize, said: &[ReportDraft], twice: bool) -> (Token, Vec<Report>) {
        let (token, own) = self.lease(lease);
        let mut reports: Vec<Report> = said.iter().map(|said| self.report(said, &own)).collect();
        let mut seen = BTreeSet::new();
        reports.retain(|report| seen.insert(report.id) || twice);
        (token, reports)
    }

    fn report(&self, said: &ReportDraft, own: &[MessageId]) -> Report {
        Report {
            code: said.code.map(str::to_owned),
            detail: said.code.map(|code| format!("the sink answered {code}")),
            result: said.code.map(|code| json!({ "said": code })),
            retry_in: said.retry_in_s.map(s),
            ..Report::new(self.pick(said.pick, own), said.outcome)
        }
    }
}

fn schedule(name: u8) -> ScheduleName {
    format!("schedule-{name}")
        .parse()
        .expect("a name of a schedule")
}

/// The queue of the alerts.
fn alerts() -> QueueName {
    ALERTS.parse().expect("invariant: a plain name")
}

/// A token no store gives out.
fn unknown_token() -> Token {
    Token(Uuid::from_u64_pair(u64::MAX, 1))
}

fn message(draft: &Draft, start: Timestamp) -> NewMessage {
    let payload = json!({ "key": draft.key, "payload": draft.payload });
    let case = draft.case.into_iter();
    let case = case.map(|case| (CORRELATION_ID.to_owned(), format!("case-{case}").into()));
    NewMessage {
        key: draft.key.map(|key| format!("key-{key}")),
        group: draft.group.map(|group| format!("group-{group}")),
        due: match draft.at_s {
            Some(at) => Due::At(start + SignedDuration::from_secs(at)),
            None => Due::In(s(draft.delay_s)),
        },
        expires_at: draft
            .expires_s
            .map(|at| start + SignedDuration::from_secs(at)),
        headers: case.collect(),
        ..NewMessage::new(queues()[draft.queue].0.clone(), payload)
    }
}
