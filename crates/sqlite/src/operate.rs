//! What people do: requeueing, holding.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use consign_kernel::{By, MessageId, Move, Moved, QueueName, QueuePolicy, StateKind};

use crate::{
    error::Result,
    groups::{NewRun, Want},
    job::Work,
    read::Found,
    rows::{self, Entry},
    sql,
};

impl Work<'_> {
    pub(crate) async fn requeue(&mut self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        self.put_back(ids, by, StateKind::Dead).await
    }

    pub(crate) async fn unhold(&mut self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        self.put_back(ids, by, StateKind::Held).await
    }

    /// Moves the dead or the held to ready, or to waiting where it is not their turn; one run per
    /// queue.
    async fn put_back(
        &mut self,
        ids: &[MessageId],
        by: &By,
        from: StateKind,
    ) -> Result<Vec<Moved>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        let found = self.states(&ids).await?;
        let (action, take) = match from {
            StateKind::Dead => ("requeue", sql!("dead_take")),
            _ => ("unhold", sql!("held_take")),
        };
        let there = |id: &&MessageId| found.get(id).is_some_and(|found| found.state == from);
        let moving: Vec<MessageId> = ids.iter().filter(there).copied().collect();
        let actions: Vec<_> = moving
            .iter()
            .map(|id| (Some(&found[id].queue), Some(*id)))
            .collect();
        let queues: BTreeSet<&QueueName> = moving.iter().map(|id| &found[id].queue).collect();
        let policies = self.policies(queues).await?;
        self.record_actions(by, action, &actions).await?;
        let entries = self.take_out(take, &moving).await?;
        if from == StateKind::Dead {
            self.call_requeued(&found, &moving).await?;
        }
        let waiting = self.back_in_line(&found, &entries, &policies).await?;
        let answer = |id: &MessageId| {
            let answer = match found.get(id).map(|found| found.state) {
                None => Move::NoSuchMessage,
                Some(_) if waiting.contains(id) => Move::Moved {
                    state: StateKind::Waiting,
                },
                Some(state) if state == from => Move::Moved {
                    state: StateKind::Ready,
                },
                Some(state) if from == StateKind::Dead => Move::NotDead { state },
                Some(state) => Move::NotHeld { state },
            };
            Moved { id: *id, answer }
        };
        Ok(ids.iter().map(answer).collect())
    }

    /// Calls the hooks of the queues that these messages were put back into.
    async fn call_requeued(
        &mut self,
        found: &HashMap<MessageId, Found>,
        moving: &[MessageId],
    ) -> Result<()> {
        for hook in self.components.hooks() {
            let is_its = |id: &&MessageId| found[id].queue.as_str() == hook.queue();
            let ids: Vec<MessageId> = moving.iter().filter(is_its).copied().collect();
            if !ids.is_empty() {
                hook.requeued(self, &ids).await?;
            }
        }
        Ok(())
    }

    /// Takes messages out of the place a statement names; answers with them, by id.
    pub(crate) async fn take_out(
        &mut self,
        statement: &'static str,
        ids: &[MessageId],
    ) -> Result<Vec<Entry>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let taken: Vec<(i64, i64, i64)> = sqlx::query_as(statement)
            .bind(rows::id_array(ids))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut entries = taken
            .into_iter()
            .map(|(id, tries, attempts)| Entry::new(id, tries, attempts))
            .collect::<Result<Vec<Entry>>>()?;
        entries.sort_by_key(|entry| entry.id);
        Ok(entries)
    }

    /// Makes messages ready now, one run per queue, unless it is not their turn. Answers which wait.
    async fn back_in_line(
        &mut self,
        found: &HashMap<MessageId, Found>,
        entries: &[Entry],
        policies: &HashMap<QueueName, QueuePolicy>,
    ) -> Result<BTreeSet<MessageId>> {
        let want = |entry: &Entry| {
            let Found { queue, group, .. } = &found[&entry.id];
            let group = group.as_deref()?;
            policies[queue].ordered.then_some(Want {
                queue,
                group,
                entry: *entry,
                due_at: self.now,
            })
        };
        let wants: Vec<Want<'_>> = entries.iter().filter_map(want).collect();
        let turns = self.take_turns(&wants).await?;
        let refused = wants.iter().zip(turns).filter(|(_, has_turn)| !has_turn);
        let waiting: BTreeSet<MessageId> = refused.map(|(want, _)| want.entry.id).collect();
        let mut by_queue: BTreeMap<&QueueName, Vec<Entry>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !waiting.contains(&entry.id)) {
            let queue = &found[&entry.id].queue;
            by_queue.entry(queue).or_default().push(*entry);
        }
        let due_at = self.now;
        let runs: Vec<NewRun<'_>> = by_queue
            .iter()
            .map(|(queue, entries)| NewRun {
                queue,
                due_at,
                entries,
                apart: false,
            })
            .collect();
        self.make_ready(&runs).await?;
        for queue in by_queue.keys() {
            self.wake(queue, &policies[*queue]);
        }
        Ok(waiting)
    }

    /// Parks ready and waiting messages. A parked message keeps its turn.
    pub async fn hold(&mut self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        let found = self.states(&ids).await?;
        let holdable = |id: &&MessageId| {
            let state = found.get(id).map(|found| found.state);
            matches!(state, Some(StateKind::Ready | StateKind::Waiting))
        };
        let moving: BTreeSet<MessageId> = ids.iter().filter(holdable).copied().collect();
        let queues: BTreeSet<&QueueName> = moving.iter().map(|id| &found[id].queue).collect();
        self.policies(queues).await?;
        let waiting: Vec<MessageId> = moving
            .iter()
            .filter(|id| found[id].state == StateKind::Waiting)
            .copied()
            .collect();
        let mut entries = self.take_out(sql!("waiting_take"), &waiting).await?;
        let ready: BTreeSet<MessageId> = moving
            .iter()
            .filter(|id| found[id].state == StateKind::Ready)
            .copied()
            .collect();
        entries.extend(self.take_from_ready(&ready).await?);
        let parked = |entry: &Entry| {
            let Found {
                queue,
                group,
                state,
            } = &found[&entry.id];
            let place = group.as_deref().filter(|_| *state == StateKind::Waiting);
            (queue, *entry, place)
        };
        let parked: Vec<_> = entries.iter().map(parked).collect();
        self.park(&parked, &by.reason).await?;
        let actions: Vec<_> = moving
            .iter()
            .map(|id| (Some(&found[id].queue), Some(*id)))
            .collect();
        self.record_actions(by, "hold", &actions).await?;
        let answer = |id: &MessageId| {
            let answer = match found.get(id).map(|found| found.state) {
                None => Move::NoSuchMessage,
                Some(StateKind::Ready | StateKind::Waiting) => Move::Moved {
                    state: StateKind::Held,
                },
                Some(state) => Move::NotHoldable { state },
            };
            Moved { id: *id, answer }
        };
        Ok(ids.iter().map(answer).collect())
    }

    /// Takes messages out of their ready runs.
    async fn take_from_ready(&mut self, ids: &BTreeSet<MessageId>) -> Result<Vec<Entry>> {
        let mut taken = Vec::new();
        let mut emptied = Vec::new();
        for run in self.runs_holding(ids).await? {
            let (leaving, staying): (Vec<Entry>, Vec<Entry>) =
                (run.entries.iter()).partition(|entry| ids.contains(&entry.id));
            taken.extend(leaving);
            match staying.is_empty() {
                true => emptied.push(run.run),
                false => self.shrink_run(run.run, &staying).await?,
            }
        }
        self.remove_runs(&emptied).await?;
        Ok(taken)
    }

    /// Files messages as held, each with the group in which it keeps its place if it waited there.
    pub(crate) async fn park(
        &mut self,
        entries: &[(&QueueName, Entry, Option<&str>)],
        reason: &str,
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let row = |(queue, entry, group): &(&'_ QueueName, Entry, Option<&'_ str>)| {
            rows::json(&(entry.id, queue, entry.tries, entry.attempts, group))
        };
        let rows: Vec<String> = entries.iter().map(row).collect();
        sqlx::query(sql!("held_append"))
            .bind(format!("[{}]", rows.join(",")))
            .bind(rows::micros(self.now))
            .bind(reason)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}
