//! What a person found out about held messages.

use std::collections::{BTreeMap, BTreeSet};

use consign_kernel::{
    By, Fence, LaneName, LanePolicy, MessageId, Move, Moved, Outcome, Report, StateKind, Token,
    codes,
};
use sqlx::Row;
use uuid::Uuid;

use crate::{
    error::{Failure, Result},
    job::{Work, arguments},
    rows::{self, Arrays, Entry, LeaseRow},
    sql,
};

impl Work<'_> {
    /// Settles held messages as delivered or dead, under a lease of the person's own (in each lane)
    /// that is taken and over in this transaction.
    pub(crate) async fn resolve(
        &mut self,
        ids: &[MessageId],
        as_delivered: bool,
        by: &By,
    ) -> Result<Vec<Moved>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        let found = self.states(&ids).await?;
        let held = |id: &&MessageId| {
            found
                .get(id)
                .is_some_and(|found| found.state == StateKind::Held)
        };
        let moving: Vec<MessageId> = ids.iter().filter(held).copied().collect();
        let mut by_lane: BTreeMap<&LaneName, Vec<Entry>> = BTreeMap::new();
        for entry in self.take_out(sql!("held_take"), &moving).await? {
            let lane = &found[&entry.id].lane;
            by_lane.entry(lane).or_default().push(entry);
        }
        let actions: Vec<_> = moving
            .iter()
            .map(|id| (Some(&found[id].lane), Some(*id)))
            .collect();
        self.record_actions(by, "resolve", &actions).await?;
        let (outcome, state) = match as_delivered {
            true => (Outcome::Delivered, StateKind::Delivered),
            false => (Outcome::Dead, StateKind::Dead),
        };
        let mut policies = self.policies(by_lane.keys().copied()).await?;
        for (lane, entries) in by_lane {
            let policy = policies.remove(lane).ok_or_else(|| {
                Failure::corrupt(format!("held messages are in unknown lane {lane}"))
            })?;
            let lease = self.lease_for(lane, policy, entries, by).await?;
            self.settle_all(lease, outcome, by).await?;
        }
        let answer = |id: &MessageId| {
            let answer = match found.get(id).map(|found| found.state) {
                None => Move::NoSuchMessage,
                Some(StateKind::Held) => Move::Moved { state },
                Some(state) => Move::NotHeld { state },
            };
            Moved { id: *id, answer }
        };
        Ok(ids.iter().map(answer).collect())
    }

    /// A lease on entries that are in no other place.
    async fn lease_for(
        &mut self,
        lane: &LaneName,
        policy: LanePolicy,
        entries: Vec<Entry>,
        by: &By,
    ) -> Result<LeaseRow> {
        let (token, arrays) = (Token(Uuid::new_v4()), Arrays::of(&entries));
        let arguments = arguments!(
            None::<String>,
            arrays.ids,
            arrays.tries,
            arrays.attempts,
            token.0,
            lane.as_str(),
            by.actor.as_str(),
            rows::micros(self.now),
            rows::micros(self.now),
            false
        )?;
        let answers = self.rows_of(sql!("lease_append"), arguments).await?;
        let row = answers.first().and_then(|rows| rows.first());
        let row = row.ok_or_else(|| Failure::corrupt("a new lease has no fence"))?;
        Ok(LeaseRow {
            fence: Fence(row.try_get(0)?),
            token,
            lane: lane.clone(),
            owner: by.actor.clone(),
            claimed_at: self.now,
            expires_at: self.now,
            entries,
            begun: BTreeSet::new(),
            presumed_begun: false,
            policy,
        })
    }

    async fn settle_all(&mut self, lease: LeaseRow, outcome: Outcome, by: &By) -> Result<()> {
        let report = |entry: &Entry| Report {
            code: Some(codes::RESOLVED.to_owned()),
            detail: Some(by.reason.clone()),
            ..Report::new(entry.id, outcome)
        };
        let reports: Vec<Report> = lease.entries.iter().map(report).collect();
        let reports: Vec<&Report> = reports.iter().collect();
        self.record(lease, &reports, 0.0).await?;
        Ok(())
    }
}
