//! An app's records about a message, and related messages.

use std::sync::Arc;

use consign_kernel::{Filter, Message, MessageId, MessageSummary};
use jiff::Timestamp;

use super::{form::encoded, words::Moment};
use crate::{extension::Extension, problem::Problem, state::AppState};

/// Related messages shown beside one, at most.
const RELATED: u32 = 20;

/// A record of an app, or messages that have something in common with this one.
#[derive(Debug)]
pub struct RelatedRecord {
    /// Heads it.
    pub title: String,
    /// Its lines.
    pub facts: Vec<Fact>,
}

/// One line of a record.
#[derive(Debug)]
pub struct Fact {
    pub(super) name: String,
    /// Its text.
    pub text: String,
    /// Where it leads.
    pub(super) href: Option<String>,
    /// Shown instead of the text where it is a time.
    pub(super) at: Option<Moment>,
}

impl Fact {
    /// A text under a name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            href: None,
            at: None,
        }
    }

    /// A time under a name.
    pub fn at(name: &str, at: Timestamp, now: Timestamp) -> Self {
        Self {
            at: Some(Moment::new(at, now)),
            ..Self::new(name, "")
        }
    }

    /// A message under a name, which the fact links to.
    pub fn message(name: impl Into<String>, id: MessageId) -> Self {
        Self {
            href: Some(format!("/ui/messages/{id}")),
            ..Self::new(name, format!("message {id}"))
        }
    }

    /// A text that links to a search for it.
    pub fn sought(name: impl Into<String>, text: impl Into<String>) -> Self {
        let fact = Self::new(name, text);
        Self {
            href: Some(search(&fact.text)),
            ..fact
        }
    }
}

/// Where a search for something is.
pub(super) fn search(text: &str) -> String {
    format!("/ui/messages?q={}", encoded(text).replace('/', "%2F"))
}

/// Every record about a message. Content of the payload only where it is revealed: names
/// and states always.
pub(super) async fn look(
    state: &AppState,
    message: &Message,
    now: Timestamp,
    is_revealed: bool,
) -> Result<Vec<RelatedRecord>, Problem> {
    let mut records = Vec::new();
    let owner = |it: &&Arc<dyn Extension>| {
        let profile = it.queue();
        profile.is_some_and(|profile| profile.queue == message.queue.as_str())
    };
    if let Some(extension) = state.extensions.iter().find(owner) {
        records.extend(extension.related(message, now, is_revealed).await?);
    }
    records.extend(same_key(state, message).await?);
    Ok(records)
}

/// Messages of other queues under the same key: a queue has one at most.
async fn same_key(state: &AppState, message: &Message) -> Result<Option<RelatedRecord>, Problem> {
    let Some(key) = message.key.clone() else {
        return Ok(None);
    };
    let filter = Filter {
        key: Some(key),
        ..Filter::default()
    };
    let page = state.store.list(&filter, None, RELATED).await?;
    let others = page.items.into_iter().filter(|it| it.id != message.id);
    let fact = |it: MessageSummary| {
        let mut fact = Fact::message(format!("Queue {}", it.queue), it.id);
        fact.text.push_str(&format!(", {}", it.state));
        fact
    };
    let facts: Vec<Fact> = others.map(fact).collect();
    let title = "The same key in other queues".to_owned();
    Ok((!facts.is_empty()).then_some(RelatedRecord { title, facts }))
}

/// The correlation id of a message, if its producer set one.
pub(super) fn correlation(message: &Message) -> Option<String> {
    let case_id = message.headers.get("correlation_id")?.as_str()?;
    (!case_id.trim().is_empty()).then(|| case_id.to_owned())
}

/// The redrive that a record of the audit belongs to: each of its moves carries its number.
pub(super) fn redrive(action: &str, reason: &str) -> Option<i64> {
    let rest = reason
        .strip_prefix("redrive ")
        .filter(|_| matches!(action, "requeue" | "discard" | "cancel"))?;
    let (number, _) = rest.split_once(':')?;
    number.parse().ok()
}

/// The copy that a record of the audit is about: it carries its number.
pub(super) fn copy(action: &str, reason: &str) -> Option<i64> {
    let rest = reason.strip_prefix("as message ")?;
    let (number, _) = rest.split_once(':').filter(|_| action == "resend")?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requeue_of_a_redrive_leads_to_it() {
        for (action, reason, expected) in [
            ("requeue", "redrive 12: sink back", Some(12)),
            ("requeue", "sink back, see redrive 12: yes", None),
            ("requeue", "redrive twelve: x", None),
            ("requeue", "redrive 12", None),
            ("hold", "redrive 12: x", None),
        ] {
            assert_eq!(redrive(action, reason), expected, "{action} {reason}");
        }
    }

    #[test]
    fn a_search_is_one_word_of_an_address() {
        assert_eq!(search("a/b&c d"), "/ui/messages?q=a%2Fb%26c%20d");
    }
}
