//! The messages before and after one in its group.

use consign_kernel::{Filter, Message, MessageSummary};
use jiff::SignedDuration;

use crate::{problem::Problem, state::AppState};

/// Messages of a group that are looked through for the next one, at a time.
const LOOKED_AT: u32 = 100;

/// How long after a message the next one is looked for, first in the shortest time.
const WINDOWS: [SignedDuration; 3] = [
    SignedDuration::from_secs(60),
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24 * 7),
];

/// The neighbours of a message.
#[derive(Default)]
pub(super) struct Neighbours {
    pub(super) before: Option<MessageSummary>,
    pub(super) after: Option<MessageSummary>,
}

/// None where the message has no group.
pub(super) async fn look(
    state: &AppState,
    message: &Message,
) -> Result<Option<Neighbours>, Problem> {
    let Some(group) = message.group.clone() else {
        return Ok(None);
    };
    let filter = Filter {
        queue: Some(message.queue.clone()),
        group: Some(group),
        ..Filter::default()
    };
    let page = state.store.list(&filter, Some(message.id), 1).await?;
    Ok(Some(Neighbours {
        before: page.items.into_iter().next(),
        after: next(state, message, &filter).await?,
    }))
}

/// Lists have the newest first: the next one is the last of those after the message, found where they are
/// few. None where many came right after it.
async fn next(
    state: &AppState,
    message: &Message,
    filter: &Filter,
) -> Result<Option<MessageSummary>, Problem> {
    for window in WINDOWS {
        let filter = Filter {
            since: Some(message.created_at),
            until: message.created_at.checked_add(window).ok(),
            ..filter.clone()
        };
        let page = state.store.list(&filter, None, LOOKED_AT).await?;
        let is_after = |it: &MessageSummary| it.id > message.id;
        let after = page.items.into_iter().rfind(is_after);
        if after.is_some() || page.next.is_some() {
            return Ok(after.filter(|_| page.next.is_none()));
        }
    }
    Ok(None)
}
