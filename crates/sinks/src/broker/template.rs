//! Templates of names in a broker: they may contain the queue and the group of a message.

use consign_worker::Delivery;

use crate::SinkError;

/// The group in the name of a message without one.
const NO_GROUP: &str = "-";

/// Text with `{queue}` and `{group}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Queue,
    Group,
}

impl Template {
    /// Reads an option's value.
    pub(crate) fn parse(option: &str, text: &str) -> Result<Self, SinkError> {
        let refuse = |why: String| Err(SinkError::invalid(option, why));
        if text.trim().is_empty() {
            return refuse("must not be empty".into());
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(start);
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let (part, length) = match from {
                _ if from.starts_with("{queue}") => (Part::Queue, "{queue}".len()),
                _ if from.starts_with("{group}") => (Part::Group, "{group}".len()),
                _ => return refuse("may hold {queue} and {group}, and no other braces".into()),
            };
            parts.push(part);
            rest = &from[length..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The name for a message; `spell` escapes its group.
    pub(crate) fn fill(&self, delivery: &Delivery, spell: impl Fn(&str) -> String) -> String {
        let message = &*delivery.message;
        self.fill_with(message.queue.as_str(), message.group.as_deref(), spell)
    }

    /// The same for any queue and group.
    pub(crate) fn fill_with(
        &self,
        queue: &str,
        group: Option<&str>,
        spell: impl Fn(&str) -> String,
    ) -> String {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Queue => filled.push_str(queue),
                Part::Group => match group {
                    Some(group) => filled.push_str(&spell(group)),
                    None => filled.push_str(NO_GROUP),
                },
            }
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, group: Option<&str>) -> String {
        let template = Template::parse("subject", text).unwrap();
        template.fill_with("mail", group, str::to_uppercase)
    }

    #[test]
    fn queue_and_group_take_their_places() {
        assert_eq!(filled("plain", Some("g")), "plain");
        assert_eq!(filled("a.{queue}.{group}.z", Some("g")), "a.mail.G.z");
        assert_eq!(filled("{queue}{group}", None), "mail-");
    }

    #[test]
    fn other_braces_and_emptiness_are_refused() {
        for text in [
            "",
            " ",
            "{key}",
            "{queue",
            "queue}",
            "{{queue}}",
            "{ queue }",
        ] {
            let error = Template::parse("subject", text).unwrap_err().to_string();
            assert!(error.starts_with("sink option `subject` m"), "{error}");
        }
    }
}
