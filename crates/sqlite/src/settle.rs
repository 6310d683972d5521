//! Settling: outcomes under a live lease, fenced.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use consign_kernel::{
    AttemptOutcome, Error, MessageId, Next, Recorded, Report, SettleAnswer, StateKind, Token,
    after_settle, is_counted,
};
use jiff::Timestamp;

use crate::{
    error::Result,
    groups::NewRun,
    job::{Work, arguments},
    rows::{self, Entry, LeaseRow, later},
    sql,
};

/// More kinds of attempt than this in one settle are written row by row of a JSON array.
const KINDS_MAX: usize = 4;

/// An attempt to be written, apart from what its lease says.
#[derive(Debug, PartialEq, Eq)]
pub struct NewAttempt {
    /// The message, with its counters before this attempt.
    pub entry: Entry,
    /// Its outcome.
    pub outcome: AttemptOutcome,
    /// Its code.
    pub code: Option<String>,
    /// Its detail.
    pub detail: Option<String>,
    /// Its result, as JSON text.
    pub result: Option<String>,
    /// The time at which the message becomes due again.
    pub next_due_at: Option<Timestamp>,
}

impl NewAttempt {
    /// Whether two attempts differ in their message only.
    fn is_like(&self, other: &Self) -> bool {
        self.entry.attempts == other.entry.attempts
            && self.outcome == other.outcome
            && self.next_due_at == other.next_due_at
            && self.code == other.code
            && self.detail == other.detail
            && self.result == other.result
    }
}

/// A message that is dead from here on: its attempt, code and detail.
pub type DeadEntry = (MessageId, u32, String, Option<String>);

/// Where messages that leave a lease go.
#[derive(Default)]
pub(crate) struct Departures {
    pub(crate) dead: Vec<DeadEntry>,
    /// With why, for programs.
    pub(crate) held: Vec<(Entry, Cow<'static, str>)>,
    /// Delivered or dead (`true`), in order: their groups may move on.
    pub(crate) finished: Vec<(MessageId, bool)>,
}

impl Departures {
    /// Files a message that does not go back; `entry` counts the attempt already.
    pub(crate) fn file(&mut self, entry: Entry, next: Next, detail: Option<String>) {
        match next {
            Next::Delivered => self.finished.push((entry.id, false)),
            Next::Dead { code } => {
                self.dead.push((entry.id, entry.attempts, code, detail));
                self.finished.push((entry.id, true));
            }
            Next::Held { reason } => self.held.push((entry, reason)),
            Next::Ready { .. } => unreachable!("invariant: the caller files what goes back"),
        }
    }
}

impl Work<'_> {
    /// `chance` in `[0, 1)` spreads retry delays.
    pub(crate) async fn settle(
        &mut self,
        token: Token,
        reports: &[Report],
        chance: f64,
    ) -> Result<SettleAnswer> {
        let reports: Vec<Report> = reports.iter().cloned().map(Report::bounded).collect();
        each_once(&reports)?;
        let by_token = [sql!("begin", "lease_by_token"), sql!("lease_by_token")];
        let found = self.open_with(by_token, arguments!(token.0)?).await?;
        let lease = found.first().and_then(|rows| rows.first());
        let lease = lease.map(|row| self.lease_row(row)).transpose()?;
        let Some(lease) = lease.filter(|lease| lease.expires_at > self.now) else {
            // A lost reply is not a lost lease: a repeated settle is told what was recorded.
            let ids: Vec<MessageId> = reports.iter().map(|report| report.id).collect();
            let earlier = self.recorded_under(token, &ids).await?;
            let repeated = !reports.is_empty() && earlier.len() == reports.len();
            return Ok(match repeated {
                true => SettleAnswer::AlreadySettled(in_order(&reports, earlier)),
                false => SettleAnswer::LeaseLost,
            });
        };
        // What the lease still holds was not settled under its token, so only the rest is looked up.
        let gone = lease.strangers(reports.iter().map(|report| report.id));
        let mut recorded = self.recorded_under(token, &gone).await?;
        let strangers = gone.iter().filter(|id| !recorded.contains_key(id));
        let strangers: Vec<MessageId> = strangers.copied().collect();
        if !strangers.is_empty() {
            return Ok(SettleAnswer::NotInLease(strangers));
        }
        if !reports.is_empty() && recorded.len() == reports.len() {
            return Ok(SettleAnswer::AlreadySettled(in_order(&reports, recorded)));
        }
        let fresh = reports
            .iter()
            .filter(|report| !recorded.contains_key(&report.id));
        let fresh: Vec<&Report> = fresh.collect();
        if let Some(hook) = self.components.hook_of(&lease.queue) {
            hook.check_reports(&fresh)?;
        }
        recorded.extend(self.record(lease, &fresh, chance).await?);
        Ok(SettleAnswer::Settled(in_order(&reports, recorded)))
    }

    /// Writes attempts, moves the messages, shrinks or ends the lease.
    pub async fn record(
        &mut self,
        lease: LeaseRow,
        reports: &[&Report],
        chance: f64,
    ) -> Result<Vec<(MessageId, Recorded)>> {
        let policy = lease.policy.clone();
        let next =
            |entry: &Entry, report: &Report| after_settle(&policy, entry.tries, report, chance);
        self.record_with(lease, reports, next).await
    }

    /// The same, where something else than the queue's policy says what happens next.
    pub(crate) async fn record_with(
        &mut self,
        lease: LeaseRow,
        reports: &[&Report],
        next: impl Fn(&Entry, &Report) -> Next,
    ) -> Result<Vec<(MessageId, Recorded)>> {
        let held: HashMap<MessageId, Entry> = lease.entries.iter().map(|e| (e.id, *e)).collect();
        let mut attempts = Vec::with_capacity(reports.len());
        let mut answers = Vec::with_capacity(reports.len());
        let mut back: BTreeMap<Timestamp, Vec<Entry>> = BTreeMap::new();
        let mut departures = Departures::default();
        for report in reports {
            let entry = held[&report.id];
            let next = next(&entry, report);
            let (state, next_due_at) = match &next {
                Next::Ready { delay } => (StateKind::Ready, Some(later(self.now, *delay))),
                Next::Delivered => (StateKind::Delivered, None),
                Next::Dead { .. } => (StateKind::Dead, None),
                Next::Held { .. } => (StateKind::Held, None),
            };
            let after = Entry {
                tries: entry.tries + u32::from(is_counted(report)),
                attempts: entry.attempts + 1,
                ..entry
            };
            attempts.push(NewAttempt {
                entry,
                outcome: report.outcome.into(),
                code: report.code.clone(),
                detail: report.detail.clone(),
                result: report.result.as_ref().map(rows::json),
                next_due_at,
            });
            let recorded = Recorded {
                id: report.id,
                attempt_no: after.attempts,
                outcome: report.outcome.into(),
                next_due_at,
                state,
            };
            answers.push((report.id, recorded));
            match next_due_at {
                Some(due_at) => back.entry(due_at).or_default().push(after),
                None => departures.file(after, next, report.detail.clone()),
            }
        }
        let settled: BTreeSet<MessageId> = reports.iter().map(|report| report.id).collect();
        let mut rest = lease.clone();
        rest.entries.retain(|entry| !settled.contains(&entry.id));
        rest.begun.retain(|id| !settled.contains(id));
        self.append_attempts(&lease, &attempts, rest).await?;
        if let Some(hook) = self.components.hook_of(&lease.queue) {
            hook.settled(self, &lease, &attempts).await?;
        }
        let runs: Vec<NewRun<'_>> = back
            .iter()
            .map(|(due_at, entries)| NewRun {
                queue: &lease.queue,
                due_at: *due_at,
                entries,
                apart: false,
            })
            .collect();
        self.make_ready(&runs).await?;
        if !back.is_empty() {
            self.wake(&lease.queue, &lease.policy);
        }
        self.depart(&lease, departures).await?;
        Ok(answers)
    }

    /// Files the dead and the held, then lets the groups of the finished move on.
    pub(crate) async fn depart(&mut self, lease: &LeaseRow, departures: Departures) -> Result<()> {
        let Departures {
            dead,
            held,
            finished,
        } = departures;
        if !dead.is_empty() {
            sqlx::query(sql!("dead_append"))
                .bind(rows::json(&dead))
                .bind(lease.queue.as_str())
                .bind(rows::micros(self.now))
                .execute(&mut *self.connection)
                .await?;
            if let Some(hook) = self.components.hook_of(&lease.queue) {
                hook.died(self, lease, &dead).await?;
            }
        }
        let mut by_reason: BTreeMap<Cow<'static, str>, Vec<_>> = BTreeMap::new();
        for (entry, reason) in held {
            let parked = by_reason.entry(reason).or_default();
            parked.push((&lease.queue, entry, None));
        }
        for (reason, parked) in by_reason {
            self.park(&parked, &reason).await?;
        }
        self.pass_turns(&lease.queue, &lease.policy, &finished)
            .await
    }

    /// Writes attempts of a lease and what is left of it, in as few statements as the attempts'
    /// likeness allows.
    pub(crate) async fn append_attempts(
        &mut self,
        lease: &LeaseRow,
        attempts: &[NewAttempt],
        rest: LeaseRow,
    ) -> Result<()> {
        let mut kinds: Vec<(&NewAttempt, Vec<i64>)> = Vec::new();
        for attempt in attempts {
            let id = attempt.entry.id.0;
            match kinds.iter().position(|(kind, _)| kind.is_like(attempt)) {
                Some(index) => kinds[index].1.push(id),
                None if kinds.len() == KINDS_MAX => {
                    self.append_unlike(lease, attempts).await?;
                    return self.keep_in_lease(rest).await;
                }
                None => kinds.push((attempt, vec![id])),
            }
        }
        if let [(kind, ids)] = &kinds[..]
            && rest.entries.is_empty()
        {
            let statements = sql!("attempt_append_alike", "lease_remove");
            return self.append_alike(statements, lease, kind, ids).await;
        }
        for (kind, ids) in kinds {
            let statement = sql!("attempt_append_alike");
            self.append_alike(statement, lease, kind, &ids).await?;
        }
        self.keep_in_lease(rest).await
    }

    async fn append_alike(
        &mut self,
        statements: &'static str,
        lease: &LeaseRow,
        kind: &NewAttempt,
        ids: &[i64],
    ) -> Result<()> {
        let arguments = arguments!(
            lease.fence.0,
            rows::array(ids.iter().copied()),
            lease.owner.as_str(),
            lease.token.0,
            rows::micros(lease.claimed_at),
            self.finished_at(lease),
            kind.entry.attempts + 1,
            kind.outcome.as_str(),
            kind.code.as_deref(),
            kind.detail.as_deref(),
            kind.result.as_deref(),
            kind.next_due_at.map(rows::micros)
        )?;
        self.rows_of(statements, arguments).await?;
        Ok(())
    }

    async fn append_unlike(&mut self, lease: &LeaseRow, attempts: &[NewAttempt]) -> Result<()> {
        let row = |a: &'_ NewAttempt| {
            let next_due_at = a.next_due_at.map(rows::micros);
            let (outcome, no) = (a.outcome.as_str(), a.entry.attempts + 1);
            rows::json(&(
                a.entry.id,
                no,
                outcome,
                &a.code,
                &a.detail,
                &a.result,
                next_due_at,
            ))
        };
        let rows: Vec<String> = attempts.iter().map(row).collect();
        sqlx::query(sql!("attempt_append"))
            .bind(format!("[{}]", rows.join(",")))
            .bind(&lease.owner)
            .bind(lease.fence.0)
            .bind(lease.token.0)
            .bind(rows::micros(lease.claimed_at))
            .bind(self.finished_at(lease))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// Now, but not before the lease was taken: the clock may have been set back meanwhile.
    fn finished_at(&self, lease: &LeaseRow) -> i64 {
        rows::micros(self.now.max(lease.claimed_at))
    }

    /// What was recorded for these messages under a token, and where they are now.
    pub async fn recorded_under(
        &mut self,
        token: Token,
        ids: &[MessageId],
    ) -> Result<BTreeMap<MessageId, Recorded>> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let found: Vec<(i64, i64, String, Option<i64>)> = sqlx::query_as(sql!("attempt_under"))
            .bind(rows::id_array(ids))
            .bind(token.0)
            .fetch_all(&mut *self.connection)
            .await?;
        let ids: BTreeSet<MessageId> = found.iter().map(|row| MessageId(row.0)).collect();
        let states = self.states(&ids).await?;
        let recorded = |(id, no, outcome, next_due_at): (i64, i64, String, Option<i64>)| {
            let id = MessageId(id);
            let recorded = Recorded {
                id,
                attempt_no: rows::count(no)?,
                outcome: rows::attempt_outcome(&outcome)?,
                next_due_at: next_due_at.map(rows::timestamp).transpose()?,
                state: states
                    .get(&id)
                    .map_or(StateKind::Ready, |found| found.state),
            };
            Ok((id, recorded))
        };
        found.into_iter().map(recorded).collect()
    }
}

/// One answer per report, in the order of the reports.
fn in_order(reports: &[Report], mut recorded: BTreeMap<MessageId, Recorded>) -> Vec<Recorded> {
    let answer = |report: &Report| {
        recorded
            .remove(&report.id)
            .expect("invariant: every report is recorded")
    };
    reports.iter().map(answer).collect()
}

pub(crate) fn each_once(reports: &[Report]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match reports.iter().find(|report| !seen.insert(report.id)) {
        Some(report) => {
            let why = format!("message {} is reported twice", report.id);
            Err(Error::invalid("reports", why).into())
        }
        None => Ok(()),
    }
}
