//! Which messages to list.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{KEY_BYTES_MAX, Message, QueueName, StateKind};

/// How far from its time a message may stand among the ids: its enqueue read the clock, waited for
/// locks, and took its id then.
const TIME_SLACK: SignedDuration = SignedDuration::from_secs(60);

/// Which messages to list. Everything that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only messages in this state.
    pub state: Option<StateKind>,
    /// Only this key.
    pub key: Option<String>,
    /// Only messages with a key that begins with this text.
    pub key_prefix: Option<String>,
    /// Only messages of this group.
    pub group: Option<String>,
    /// Only messages whose header `correlation_id` is this text.
    pub correlation_id: Option<String>,
    /// Only messages that have all these headers, each with this text.
    pub headers: BTreeMap<String, String>,
    /// Only messages enqueued at this time or later.
    ///
    /// Ids grow with time, but for transactions that overlap and a clock that was set back: a store
    /// begins where ids of a minute earlier stand, and ends as much later.
    pub since: Option<Timestamp>,
    /// Only messages enqueued before this time; see `since`.
    pub until: Option<Timestamp>,
    /// Only dead messages with this code (implies `state = dead`).
    pub code: Option<String>,
}

impl Filter {
    /// The state that everything it finds has: only dead messages have a code.
    pub fn wanted_state(&self) -> Option<StateKind> {
        self.state.or(self.code.as_ref().map(|_| StateKind::Dead))
    }

    /// Whether no message can match: a code in another state than dead, or a text with U+0000,
    /// which no message has.
    pub fn is_never(&self) -> bool {
        let has_nul = |text: &String| text.contains('\0');
        let texts = [
            &self.key,
            &self.key_prefix,
            &self.group,
            &self.correlation_id,
            &self.code,
        ];
        let headers = self.headers.iter().flat_map(|(name, text)| [name, text]);
        (self.code.is_some() && self.wanted_state() != Some(StateKind::Dead))
            || texts.into_iter().flatten().chain(headers).any(has_nul)
    }

    /// Whether each candidate is to be looked at: no index has these properties.
    pub fn is_narrow(&self) -> bool {
        self.key_prefix.is_some()
            || self.group.is_some()
            || !self.headers.is_empty()
            || self.since.is_some()
            || self.until.is_some()
    }

    /// Where among the ids the messages begin and end, as times to look for: with some slack.
    pub fn span(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let first = self.since.and_then(|at| at.checked_sub(TIME_SLACK).ok());
        let end = self.until.and_then(|at| at.checked_add(TIME_SLACK).ok());
        (first, end)
    }

    /// Whether a message matches, apart from where it is.
    pub fn covers(&self, message: &Message) -> bool {
        let is = |wanted: &Option<String>, own: Option<&str>| {
            wanted.as_deref().is_none_or(|text| own == Some(text))
        };
        let key = message.key.as_deref();
        let begins = |prefix: &String| key.is_some_and(|key| key.starts_with(prefix.as_str()));
        let has = |(name, text): (&String, &String)| {
            let own = message.headers.get(name).and_then(|value| value.as_str());
            own == Some(text.as_str())
        };
        self.queue.as_ref().is_none_or(|it| *it == message.queue)
            && is(&self.key, key)
            && self.key_prefix.as_ref().is_none_or(begins)
            && is(&self.group, message.group.as_deref())
            && is(&self.correlation_id, message.correlation_id())
            && self.headers.iter().all(has)
            && self.since.is_none_or(|since| message.created_at >= since)
            && self.until.is_none_or(|until| message.created_at < until)
    }
}

/// A text, in the order of bytes, behind every key that begins with a prefix, and before all that follow.
pub fn prefix_end(prefix: &str) -> String {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // The order of characters is that of their bytes; `nth` steps over the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return chars.into_iter().collect();
        }
    }
    // No key is that long.
    let longest = KEY_BYTES_MAX / char::MAX.len_utf8();
    char::MAX.to_string().repeat(longest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_text_of_its_length() {
        for (prefix, end) in [
            ("a", "b"),
            ("order-1", "order-2"),
            ("é", "ê"),
            ("\u{d7ff}", "\u{e000}"),
            ("a\u{10ffff}", "b"),
        ] {
            assert_eq!(prefix_end(prefix), end, "{prefix:?}");
        }
        let longest = char::MAX.to_string().repeat(KEY_BYTES_MAX / 4);
        assert!(longest.len() <= KEY_BYTES_MAX);
        for prefix in ["", "\u{10ffff}"] {
            assert!(prefix_end(prefix) > longest, "{prefix:?}");
        }
    }

    #[test]
    fn a_text_with_nul_matches_nothing() {
        let nul = || Some("a\0".to_owned());
        let any = Filter::default;
        for filter in [
            Filter {
                key: nul(),
                ..any()
            },
            Filter {
                key_prefix: nul(),
                ..any()
            },
            Filter {
                group: nul(),
                ..any()
            },
            Filter {
                headers: [("a\0".into(), "b".into())].into(),
                ..any()
            },
            Filter {
                headers: [("a".into(), "\0".into())].into(),
                ..any()
            },
        ] {
            assert!(filter.is_never(), "{filter:?}");
        }
        assert!(!any().is_never());
    }
}
