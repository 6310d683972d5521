//! Pages of messages, newest first.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Reference, later};
use crate::{
    Browse, Cursor, DEATHS_WINDOW, DeadCause, DeadLetter, Filter, Message, MessageId,
    MessageSummary, PAGE_ENTRIES_MAX, Page, ReferenceStore, StateKind, error::Result,
};

#[async_trait]
impl Browse for ReferenceStore {
    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<MessageSummary>> {
        Ok(self.at(|reference, _| reference.list(filter, before, limit)))
    }

    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<DeadLetter>> {
        Ok(self.at(|reference, _| reference.dead(filter, before, limit)))
    }

    async fn count_dead(&self, filter: &Filter, at_most: u64) -> Result<u64> {
        Ok(self.at(|reference, _| reference.count_dead(filter, at_most)))
    }

    async fn dead_causes(&self, filter: &Filter, at_most: u64) -> Result<Vec<DeadCause>> {
        Ok(self.at(|reference, now| reference.dead_causes(now, filter, at_most)))
    }
}

impl Reference {
    /// Messages by id, newest first.
    pub fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Page<MessageSummary> {
        let matches = |listed: &MessageSummary| {
            filter.covers(&self.messages[&listed.id])
                && filter.state.is_none_or(|state| state == listed.state)
                && filter
                    .code
                    .as_ref()
                    .is_none_or(|wanted| Some(wanted) == listed.code.as_ref())
        };
        let messages = self.messages.values().rev();
        let listed = messages.map(|message| self.summary(message));
        page(listed.filter(matches), |listed| listed.id, before, limit)
    }

    /// What lists show of a message.
    pub(super) fn summary(&self, message: &Message) -> MessageSummary {
        let dead = self.dead.get(&message.id);
        MessageSummary {
            id: message.id,
            queue: message.queue.clone(),
            key: message.key.clone(),
            group: message.group.clone(),
            created_at: message.created_at,
            expires_at: message.expires_at,
            state: self
                .state(message.id)
                .map_or(StateKind::Ready, |state| state.kind()),
            attempts: self.history(message.id).len() as u32,
            code: dead.map(|dead| dead.code.clone()),
            detail: dead.and_then(|dead| dead.detail.clone()),
            erased: self.erasures.contains_key(&message.id),
        }
    }

    /// Dead messages by id, newest first.
    pub fn dead(&self, filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<DeadLetter> {
        let letters = self.fitting_dead(filter);
        let letters = letters.map(|(id, dead)| dead.letter(*id));
        page(letters, |letter| letter.message_id, before, limit)
    }

    /// How many dead messages fit, counted up to `at_most`.
    pub fn count_dead(&self, filter: &Filter, at_most: u64) -> u64 {
        let count = self.fitting_dead(filter).count() as u64;
        count.min(at_most)
    }

    /// The newest dead messages that fit, by queue and code, the largest group first.
    pub fn dead_causes(&self, now: Timestamp, filter: &Filter, at_most: u64) -> Vec<DeadCause> {
        let mut causes: Vec<DeadCause> = Vec::new();
        let most = usize::try_from(at_most).unwrap_or(usize::MAX);
        for (id, dead) in self.fitting_dead(filter).take(most) {
            let is_recent = later(dead.at, DEATHS_WINDOW) >= now;
            let is_before = !is_recent && later(dead.at, 2 * DEATHS_WINDOW) >= now;
            let is_same =
                |cause: &&mut DeadCause| cause.queue == dead.queue && cause.code == dead.code;
            if let Some(cause) = causes.iter_mut().find(is_same) {
                cause.messages += 1;
                cause.attempts_min = cause.attempts_min.min(dead.attempt_no);
                cause.attempts_max = cause.attempts_max.max(dead.attempt_no);
                cause.first_at = cause.first_at.min(dead.at);
                cause.last_at = cause.last_at.max(dead.at);
                cause.recent += u64::from(is_recent);
                cause.before += u64::from(is_before);
            } else {
                causes.push(DeadCause {
                    queue: dead.queue.clone(),
                    code: dead.code.clone(),
                    messages: 1,
                    attempts_min: dead.attempt_no,
                    attempts_max: dead.attempt_no,
                    first_at: dead.at,
                    last_at: dead.at,
                    recent: u64::from(is_recent),
                    before: u64::from(is_before),
                    example: *id,
                    detail: dead.detail.clone(),
                });
            }
        }
        causes.sort_by(|a, b| {
            let largest = b.messages.cmp(&a.messages);
            largest.then_with(|| (&a.queue, &a.code).cmp(&(&b.queue, &b.code)))
        });
        causes.truncate(PAGE_ENTRIES_MAX as usize);
        causes
    }

    /// Dead messages of this queue and code, newest first.
    fn fitting_dead<'f>(
        &'f self,
        filter: &'f Filter,
    ) -> impl Iterator<Item = (&'f MessageId, &'f super::DeadRow)> {
        self.dead.iter().rev().filter(|(_, dead)| {
            filter.queue.as_ref().is_none_or(|it| *it == dead.queue)
                && filter.code.as_ref().is_none_or(|it| *it == dead.code)
        })
    }
}

fn page<T>(
    items: impl Iterator<Item = T>,
    id: impl Fn(&T) -> MessageId,
    before: Option<Cursor>,
    limit: u32,
) -> Page<T> {
    let mut rest = items.skip_while(|item| before.is_some_and(|before| id(item) >= before));
    let items: Vec<T> = rest
        .by_ref()
        .take(limit.min(PAGE_ENTRIES_MAX) as usize)
        .collect();
    let next = rest.next().and_then(|_| items.last().map(&id));
    Page { items, next }
}
