//! What is recorded about a message, and what is leased.

use async_trait::async_trait;
use jiff::Timestamp;

use super::Reference;
use crate::{
    Attempt, AttemptOutcome, AuditEntry, Explanation, LateResult, LeaseView, MessageId, Read,
    ReferenceStore, State, error::Result,
};

#[async_trait]
impl Read for ReferenceStore {
    async fn explain(&self, id: MessageId) -> Result<Option<Explanation>> {
        Ok(self.at(|reference, now| reference.explain(now, id)))
    }

    async fn history(&self, id: MessageId) -> Result<Vec<Attempt>> {
        Ok(self.at(|reference, _| reference.history(id)))
    }

    async fn late(&self, id: MessageId) -> Result<Vec<LateResult>> {
        Ok(self.at(|reference, _| reference.late(id)))
    }

    async fn leases(&self, limit: u32) -> Result<Vec<LeaseView>> {
        Ok(self.at(|reference, _| reference.leases(limit)))
    }

    async fn audit(
        &self,
        id: Option<MessageId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        Ok(self.at(|reference, _| reference.audit(id, before, limit)))
    }
}

impl Reference {
    /// Where a message is; `None` if the message does not exist.
    pub fn state(&self, id: MessageId) -> Option<State> {
        let message = self.messages.get(&id)?;
        if let Some((key, _)) = self
            .ready
            .iter()
            .find(|(_, batch)| batch.entries.iter().any(|entry| entry.id == id))
        {
            return Some(State::Ready { due_at: key.due_at });
        }
        if let Some((fence, lease)) = self
            .leases
            .iter()
            .find(|(_, lease)| lease.entries.iter().any(|entry| entry.id == id))
        {
            return Some(State::Leased {
                owner: lease.owner.clone(),
                fence: *fence,
                expires_at: lease.expires_at,
                begun: lease.begun.contains(&id),
            });
        }
        if let Some(held) = self.held.get(&id) {
            return Some(State::Held {
                at: held.at,
                reason: held.reason.clone(),
            });
        }
        if let Some(dead) = self.dead.get(&id) {
            let (code, detail) = (dead.code.clone(), dead.detail.clone());
            return Some(State::Dead {
                at: dead.at,
                code,
                detail,
            });
        }
        if let Some(discarded) = self.discarded.get(&id) {
            return Some(State::Discarded {
                at: discarded.at,
                actor: discarded.by.actor.clone(),
                reason: discarded.by.reason.clone(),
            });
        }
        if let Some(group) = &message.group {
            let place = (message.queue.clone(), group.clone());
            if self
                .waiting
                .contains_key(&(message.queue.clone(), group.clone(), id))
            {
                return Some(State::Waiting {
                    behind: self.heads.get(&place).copied(),
                });
            }
        }
        let last = self.history(id).pop()?;
        (last.outcome == AttemptOutcome::Delivered).then_some(State::Delivered {
            at: last.finished_at,
        })
    }

    /// A message, its state, and the reason for it.
    pub fn explain(&self, now: Timestamp, id: MessageId) -> Option<Explanation> {
        let message = self.messages.get(&id)?.clone();
        let mut history = self.history(id);
        Some(Explanation {
            state: self.state(id)?,
            queue: self.queues[&message.queue].clone(),
            attempts: history.len() as u32,
            last_attempt: history.pop().map(Into::into),
            erased: self.erasure(id),
            message,
            now,
        })
    }

    /// Every attempt of a message, first to last.
    pub fn history(&self, id: MessageId) -> Vec<Attempt> {
        let attempts = self.attempts.range((id, 0)..=(id, u32::MAX));
        attempts.map(|(_, attempt)| attempt.clone()).collect()
    }

    /// Every lease, oldest first.
    pub fn leases(&self, limit: u32) -> Vec<LeaseView> {
        let view = |(fence, lease): (&crate::Fence, &super::LeaseRow)| LeaseView {
            fence: *fence,
            token_prefix: lease.token.shown(),
            queue: lease.queue.clone(),
            owner: lease.owner.clone(),
            ids: lease.entries.iter().map(|entry| entry.id).collect(),
            begun: lease.begun.iter().copied().collect(),
            claimed_at: lease.claimed_at,
            expires_at: lease.expires_at,
        };
        self.leases.iter().take(limit as usize).map(view).collect()
    }

    /// Operator actions, newest first.
    pub fn audit(&self, id: Option<MessageId>, before: Option<i64>, limit: u32) -> Vec<AuditEntry> {
        let older = |entry: &&AuditEntry| before.is_none_or(|before| entry.id < before);
        let wanted = (self.audit.iter().rev())
            .filter(older)
            .filter(|entry| id.is_none() || entry.message_id == id);
        wanted.take(limit as usize).cloned().collect()
    }
}
