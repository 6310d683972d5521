//! Settling: outcomes under a live lease, fenced.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    MessageId, Next, RecordedOutcome, Report, Settle, SettleAnswer, StateKind, Token, after_settle,
    plan::{self, LeasePlan, NewAttempt, ReportClass, not_in_lease, reject_repeats},
};

use crate::{
    SqliteStore,
    error::Result,
    groups::NewBatch,
    job::{Work, arguments},
    rows::{self, Entry, LeaseRow},
    sql,
    store::{chance, write, write_unopened},
};

/// More kinds of attempt than this in one settle are written row by row of a JSON array.
const KINDS_MAX: usize = 4;

/// Whether two attempts differ in their message only.
fn is_like(one: &NewAttempt, other: &NewAttempt) -> bool {
    one.entry.attempts == other.entry.attempts
        && one.outcome == other.outcome
        && one.next_due_at == other.next_due_at
        && one.code == other.code
        && one.detail == other.detail
        && one.result == other.result
}

#[async_trait]
impl Settle for SqliteStore {
    async fn settle(
        &self,
        token: Token,
        reports: &[Report],
    ) -> consign_kernel::Result<SettleAnswer> {
        let chance = chance();
        let answer = write_unopened!(self, "settle", (reports), |work| work
            .settle(token, &reports, chance))?;
        kill_at("settle_committed");
        Ok(answer)
    }

    async fn record_late(
        &self,
        token: Token,
        reports: &[Report],
    ) -> consign_kernel::Result<Vec<MessageId>> {
        write!(self, "record_late", (reports), |work| work
            .record_late(token, &reports))
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
        reject_repeats(&reports)?;
        let by_token = [sql!("begin", "lease_by_token"), sql!("lease_by_token")];
        let found = self.open_with(by_token, arguments!(token.0)?).await?;
        let lease = found.first().and_then(|rows| rows.first());
        let lease = lease.map(|row| self.lease_row(row)).transpose()?;
        let lease = lease.filter(|lease| lease.expires_at > self.now);
        let held = lease.as_ref().map(|lease| &lease.entries[..]);
        // What the lease still holds was not settled under its token, so only the rest is looked up.
        let gone = not_in_lease(held.unwrap_or_default(), reports.iter().map(|r| r.id));
        let mut recorded = self.recorded_under(token, &gone).await?;
        let fresh = match plan::classify_reports(held, &reports, |id| recorded.contains_key(&id)) {
            ReportClass::New(fresh) => fresh,
            ReportClass::LeaseLost => return Ok(SettleAnswer::LeaseLost),
            ReportClass::NotInLease(strangers) => return Ok(SettleAnswer::NotInLease(strangers)),
            ReportClass::Repeated => {
                return Ok(SettleAnswer::AlreadySettled(in_order(&reports, recorded)));
            }
        };
        let lease = lease.expect("invariant: only a live lease has new reports");
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
    ) -> Result<Vec<(MessageId, RecordedOutcome)>> {
        let policy = lease.policy.clone();
        let next =
            |entry: &Entry, report: &Report| after_settle(&policy, entry.tries, report, chance);
        self.record_with(lease, reports, next).await
    }

    /// The same, with another decision than the queue's policy.
    pub(crate) async fn record_with(
        &mut self,
        lease: LeaseRow,
        reports: &[&Report],
        next: impl Fn(&Entry, &Report) -> Next,
    ) -> Result<Vec<(MessageId, RecordedOutcome)>> {
        let plan = plan::settle(self.now, &lease.entries, reports, next);
        let settled: BTreeSet<MessageId> = reports.iter().map(|report| report.id).collect();
        let mut rest = lease.clone();
        rest.entries.retain(|entry| !settled.contains(&entry.id));
        rest.begun.retain(|id| !settled.contains(id));
        self.append_attempts(&lease, &plan.attempts, rest).await?;
        let answer = |attempt: &NewAttempt| (attempt.entry.id, attempt.recorded());
        let answers = plan.attempts.iter().map(answer).collect();
        if !plan.ready.is_empty() {
            self.wake(&lease.queue, &lease.policy);
        }
        self.apply_lease_plan(&lease, &plan).await?;
        if let Some(hook) = self.components.hook_of(&lease.queue) {
            hook.settled(self, &lease, &plan).await?;
        }
        Ok(answers)
    }

    /// Writes the ready batches, files the dead and the held, then lets the groups of the finished
    /// move on.
    pub(crate) async fn apply_lease_plan(
        &mut self,
        lease: &LeaseRow,
        plan: &LeasePlan,
    ) -> Result<()> {
        let LeasePlan {
            ready,
            dead,
            held,
            finished,
            ..
        } = plan;
        let batches: Vec<NewBatch<'_>> = ready
            .iter()
            .map(|batch| NewBatch {
                queue: &lease.queue,
                due_at: batch.due_at,
                entries: &batch.entries,
                isolated: batch.isolated,
            })
            .collect();
        self.make_ready(&batches).await?;
        if !dead.is_empty() {
            sqlx::query(sql!("dead_append"))
                .bind(rows::json(dead))
                .bind(lease.queue.as_str())
                .bind(rows::micros(self.now))
                .execute(&mut *self.connection)
                .await?;
            let deaths = plan::deaths(&lease.queue, dead, self.now);
            self.record_events(&lease.policy, &deaths).await?;
        }
        let mut by_reason: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (entry, reason) in held {
            let held_rows = by_reason.entry(reason).or_default();
            held_rows.push((&lease.queue, *entry, None));
        }
        for (reason, held_rows) in by_reason {
            self.put_in_held(&held_rows, reason).await?;
        }
        self.promote_after(&lease.queue, &lease.policy, finished)
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
            match kinds.iter().position(|(kind, _)| is_like(kind, attempt)) {
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
            kind.attempt_no(),
            kind.outcome.as_str(),
            kind.code.as_deref(),
            kind.detail.as_deref(),
            kind.result.as_ref().map(rows::json),
            kind.next_due_at.map(rows::micros)
        )?;
        self.rows_of(statements, arguments).await?;
        Ok(())
    }

    async fn append_unlike(&mut self, lease: &LeaseRow, attempts: &[NewAttempt]) -> Result<()> {
        let row = |a: &'_ NewAttempt| {
            let next_due_at = a.next_due_at.map(rows::micros);
            let (outcome, no) = (a.outcome.as_str(), a.attempt_no());
            let result = a.result.as_ref().map(rows::json);
            rows::json(&(
                a.entry.id,
                no,
                outcome,
                &a.code,
                &a.detail,
                result,
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
    ) -> Result<BTreeMap<MessageId, RecordedOutcome>> {
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
            let recorded = RecordedOutcome {
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
fn in_order(
    reports: &[Report],
    mut recorded: BTreeMap<MessageId, RecordedOutcome>,
) -> Vec<RecordedOutcome> {
    let answer = |report: &Report| {
        recorded
            .remove(&report.id)
            .expect("invariant: every report is recorded")
    };
    reports.iter().map(answer).collect()
}
