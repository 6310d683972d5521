//! Pages of messages, newest first.

use async_trait::async_trait;

use super::Reference;
use crate::{
    Browse, Cursor, DeadLetter, Filter, MessageId, MessageSummary, PAGE_ENTRIES_MAX, Page,
    ReferenceStore, StateKind, error::Result,
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
            filter
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == listed.queue)
                && filter.state.is_none_or(|state| state == listed.state)
                && filter
                    .key
                    .as_ref()
                    .is_none_or(|key| Some(key) == listed.key.as_ref())
                && filter
                    .correlation_id
                    .as_deref()
                    .is_none_or(|it| self.messages[&listed.id].correlation_id() == Some(it))
                && filter
                    .code
                    .as_ref()
                    .is_none_or(|wanted| Some(wanted) == listed.code.as_ref())
        };
        let listed = self.messages.values().rev().map(|message| {
            let dead = self.dead.get(&message.id);
            MessageSummary {
                id: message.id,
                queue: message.queue.clone(),
                key: message.key.clone(),
                group: message.group.clone(),
                created_at: message.created_at,
                state: self
                    .state(message.id)
                    .map_or(StateKind::Ready, |state| state.kind()),
                attempts: self.history(message.id).len() as u32,
                code: dead.map(|dead| dead.code.clone()),
                detail: dead.and_then(|dead| dead.detail.clone()),
                erased: self.erasures.contains_key(&message.id),
            }
        });
        page(listed.filter(matches), |listed| listed.id, before, limit)
    }

    /// Dead messages by id, newest first.
    pub fn dead(&self, filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<DeadLetter> {
        let newest = self.dead.iter().rev();
        let letters = newest.map(|(id, dead)| dead.letter(*id));
        let letters = letters.filter(|letter| {
            filter
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == letter.queue)
                && filter.code.as_ref().is_none_or(|code| *code == letter.code)
        });
        page(letters, |letter| letter.message_id, before, limit)
    }

    /// How many dead messages fit, counted up to `at_most`.
    pub fn count_dead(&self, filter: &Filter, at_most: u64) -> u64 {
        let fits = |dead: &&super::DeadRow| {
            filter
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == dead.queue)
                && filter.code.as_ref().is_none_or(|code| *code == dead.code)
        };
        let count = self.dead.values().filter(fits).count() as u64;
        count.min(at_most)
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
