//! What a person found out about held messages.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Entry, LeaseRow, Reference};
use crate::{
    By, Fence, MessageId, Move, Moved, Report, Resolution, StateKind, Token, after_resolution,
    codes, error::Result,
};

impl Reference {
    /// Settles held messages as a person says, under a lease of the person's own that is taken and
    /// over in this moment.
    pub fn resolve(
        &mut self,
        now: Timestamp,
        token: Token,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<Moved>> {
        by.validate()?;
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        resolution.validate(ids.len())?;
        for message in ids.iter().filter_map(|id| self.messages.get(id)) {
            resolution.refuse_result(&message.queue)?;
        }
        self.last_fence += 1;
        let fence = Fence(self.last_fence);
        let state = resolution.state();
        let (mut answers, mut finished) = (Vec::new(), Vec::new());
        for id in ids {
            let answer = match self.state(id).map(|state| state.kind()) {
                None => Move::NoSuchMessage,
                Some(StateKind::Held) => {
                    finished.extend(self.settle_held(now, (fence, token), id, resolution, by));
                    Move::Moved { state }
                }
                Some(state) => Move::NotHeld { state },
            };
            answers.push(Moved { id, answer });
        }
        for (id, died) in finished {
            self.pass_turn(now, id, died);
        }
        Ok(answers)
    }

    /// Files one message: answers with it (and whether it died) if it has a turn to pass on.
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
        let lease = LeaseRow {
            token,
            queue: queue.clone(),
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
        self.append_attempt(
            now,
            fence,
            &lease,
            entry,
            Some(&report),
            report.outcome.into(),
            None,
        );
        let entry = Entry {
            tries: entry.tries + 1,
            attempts: entry.attempts + 1,
            ..entry
        };
        self.record_action(now, by, "resolve", Some(&queue), Some(id));
        let next = after_resolution(resolution);
        let finished = self.park_or_end(now, &lease, entry, next, &report.detail);
        // One that was held while it waited may have no turn to pass on yet.
        let has_turn = self.group_of(id).and_then(|group| self.turns.get(&group)) == Some(&id);
        finished.filter(|_| has_turn)
    }
}
