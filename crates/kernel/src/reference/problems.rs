//! What needs an operator, and what operators acknowledged.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Reference, later};
use crate::{
    ACKNOWLEDGEMENTS_MAX, ATTENTION_MAX, Acknowledgement, Attention, BlockedGroups, By,
    OverdueSchedule, ProblemMark, Problems, QueueName, ReferenceStore, StuckAlert, TICK_LATE_MAX,
    error::Result,
};

#[async_trait]
impl Problems for ReferenceStore {
    async fn attention(&self) -> Result<Attention> {
        Ok(self.at(|reference, now| reference.attention(now)))
    }

    async fn acknowledge(&self, mark: &ProblemMark, by: &By) -> Result<Acknowledgement> {
        self.at(|reference, now| reference.acknowledge(now, mark, by))
    }

    async fn reopen(&self, problem: &str, by: &By) -> Result<bool> {
        self.at(|reference, now| reference.reopen(now, problem, by))
    }
}

impl Reference {
    /// Everything that shows in no count.
    pub fn attention(&self, now: Timestamp) -> Attention {
        let most = ATTENTION_MAX as usize;
        let mut overdue: Vec<_> = (self.schedules.values())
            .filter(|it| it.paused_at.is_none() && later(it.next_at, TICK_LATE_MAX) < now)
            .map(|it| OverdueSchedule {
                name: it.name.clone(),
                queue: it.plan.queue.clone(),
                due_at: it.next_at,
            })
            .collect();
        overdue.sort_by(|a, b| (a.due_at, &a.name).cmp(&(b.due_at, &b.name)));
        overdue.truncate(most);
        let stuck = |(key, row): (&crate::plan::AlertKey, &crate::plan::AlertRow)| {
            Some(StuckAlert {
                queue: key.queue.clone(),
                reason: key.reason,
                code: key.code.clone(),
                pending: row.pending,
                since: row.first_at,
                failure: row.failure.clone()?,
            })
        };
        let known = self.acknowledgements.values();
        let known = known.filter(|known| known.until > now).cloned();
        Attention {
            now,
            blocked: self.blocked_groups().take(most).collect(),
            alerts: self.alerts.0.iter().filter_map(stuck).take(most).collect(),
            overdue,
            acknowledgements: known.take(ACKNOWLEDGEMENTS_MAX as usize).collect(),
        }
    }

    /// Heads of groups that are dead.
    fn blocked_groups(&self) -> impl Iterator<Item = BlockedGroups> {
        let mut by_queue: BTreeMap<QueueName, (u64, Timestamp)> = BTreeMap::new();
        for ((queue, _), head) in &self.heads {
            let Some(dead) = self.dead.get(head) else {
                continue;
            };
            let (groups, since) = by_queue.entry(queue.clone()).or_insert((0, dead.at));
            *groups += 1;
            *since = (*since).min(dead.at);
        }
        let blocked = |(queue, (groups, since))| BlockedGroups {
            queue,
            groups,
            since,
        };
        by_queue.into_iter().map(blocked)
    }

    /// Records that an operator knows a problem, instead of what was recorded about it before.
    pub fn acknowledge(
        &mut self,
        now: Timestamp,
        mark: &ProblemMark,
        by: &By,
    ) -> Result<Acknowledgement> {
        by.validate()?;
        mark.validate()?;
        let recorded = by.of_problem(&mark.problem)?;
        let acknowledgement = mark.at(now, by);
        self.acknowledgements.retain(|_, known| known.until > now);
        self.acknowledgements
            .insert(mark.problem.clone(), acknowledgement.clone());
        self.record_action(now, &recorded, "acknowledge", mark.queue.as_ref(), None);
        Ok(acknowledgement)
    }

    /// Removes an acknowledgement.
    pub fn reopen(&mut self, now: Timestamp, problem: &str, by: &By) -> Result<bool> {
        by.validate()?;
        let recorded = by.of_problem(problem)?;
        let Some(_) = self.acknowledgements.remove(problem) else {
            return Ok(false);
        };
        self.record_action(now, &recorded, "reopen", None, None);
        Ok(true)
    }
}
