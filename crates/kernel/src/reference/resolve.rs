//! Resolving held messages: an operator records their outcome.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Entry, LeaseRow, Reference};
use crate::{
    By, Fence, MessageId, Move, MoveResult, Report, Resolution, Token, after_resolution, codes,
    error::Result,
    plan::{self, OperatorMove},
};

impl Reference {
    /// Settles held messages under a lease in the operator's name, which is taken and
    /// ended in the same step.
    pub fn resolve(
        &mut self,
        now: Timestamp,
        token: Token,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        resolution.validate(ids.len())?;
        for message in ids.iter().filter_map(|id| self.messages.get(id)) {
            resolution.refuse_result(&message.queue)?;
        }
        self.last_fence += 1;
        let fence = Fence(self.last_fence);
        let (mut answers, mut finished) = (Vec::new(), Vec::new());
        for id in ids {
            let state = self.state(id).map(|state| state.kind());
            let answer = OperatorMove::Resolve.refusal(state).unwrap_or_else(|| {
                finished.extend(self.settle_held(now, (fence, token), id, resolution, by));
                let state = resolution.state();
                Move::Moved { state }
            });
            answers.push(MoveResult { id, answer });
        }
        for (id, died) in finished {
            self.promote_next(now, id, died);
        }
        Ok(answers)
    }

    /// Files one message: answers with it (and whether it died) if it was the head of its group.
    fn settle_held(
        &mut self,
        now: Timestamp,
        (fence, token): (Fence, Token),
        id: MessageId,
        resolution: &Resolution,
        by: &By,
    ) -> Option<(MessageId, bool)> {
        let entry = self.held.remove(&id).expect("invariant: held").entry;
        let queue = self.messages[&id].queue.clone();
        self.record_action(now, by, "resolve", Some(&queue), Some(id));
        let lease = LeaseRow {
            token,
            queue,
            owner: by.actor.clone(),
            entries: vec![entry],
            begun: BTreeSet::new(),
            claimed_at: now,
            expires_at: now,
        };
        let report = Report {
            code: Some(codes::RESOLVED.to_owned()),
            detail: Some(by.reason.clone()),
            ..Report::new(id, resolution.outcome())
        };
        let next = |_: &Entry, _: &Report| after_resolution(resolution);
        let mut plan = plan::settle(now, &lease.entries, &[&report], next);
        let finished = std::mem::take(&mut plan.finished).pop();
        self.apply_lease_plan(now, fence, &lease, plan);
        // One that was held while it waited may not be the head yet.
        let is_head = self.group_of(id).and_then(|group| self.heads.get(&group)) == Some(&id);
        finished.filter(|_| is_head)
    }
}
