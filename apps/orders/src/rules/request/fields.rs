//! The fields of a request: each is taken once, each problem is recorded.

use jiff::Timestamp;

use super::Problem;
use crate::{Amount, json::Json};

/// More than an order has fields. Further problems are unknown fields, of which a body may have
/// thousands.
pub(super) const PROBLEMS_MAX: usize = 48;

/// An object whose members are taken by name. The rest are unknown fields.
pub(super) struct Fields<'a, 'p> {
    members: Vec<(&'a str, &'a Json)>,
    /// `risk_constraints.` within it, empty at the top.
    prefix: &'static str,
    problems: &'p mut Vec<Problem>,
}

impl<'a, 'p> Fields<'a, 'p> {
    pub(super) fn new(
        members: &'a [(String, Json)],
        prefix: &'static str,
        problems: &'p mut Vec<Problem>,
    ) -> Self {
        let members = members.iter().map(|(name, value)| (name.as_str(), value));
        Self {
            members: members.collect(),
            prefix,
            problems,
        }
    }

    pub(super) fn complain(&mut self, field: &str, problem: &str, accepted: &str) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        self.problems.push(Problem {
            field: format!("{}{field}", self.prefix),
            problem: problem.to_owned(),
            accepted: accepted.to_owned(),
        });
    }

    /// Takes a member out. Of a repeated name the first is taken; the repetition is reported
    /// elsewhere.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a Json> {
        let (_, value) = *self.members.iter().find(|(key, _)| *key == name)?;
        self.members.retain(|(key, _)| *key != name);
        Some(value)
    }

    /// Takes an optional member: `null` counts as absent here, but not in the digest.
    pub(super) fn optional_member(&mut self, name: &str) -> Option<&'a Json> {
        self.take(name).filter(|value| **value != Json::Null)
    }

    /// Takes a required member.
    pub(super) fn demand(&mut self, name: &str, accepted: &str) -> Option<&'a Json> {
        let value = self.take(name);
        if value.is_none() {
            self.complain(name, "is missing", accepted);
        }
        value
    }

    /// A text that satisfies `is_right`.
    pub(super) fn text(
        &mut self,
        name: &str,
        value: &'a Json,
        accepted: &str,
        is_right: impl FnOnce(&str) -> bool,
    ) -> Option<&'a str> {
        let Some(text) = value.as_text() else {
            self.complain(name, "is not text", accepted);
            return None;
        };
        if !is_right(text) {
            self.complain(name, "is not valid", accepted);
            return None;
        }
        Some(text)
    }

    /// A number that is exact as an [`Amount`].
    pub(super) fn amount(&mut self, name: &str, value: &Json, accepted: &str) -> Option<Amount> {
        let Json::Number(number) = value else {
            self.complain(name, "is not a number", accepted);
            return None;
        };
        let amount = Amount::try_from(number).ok();
        if amount.is_none() {
            self.complain(name, "is too large or has too many digits", accepted);
        }
        amount
    }

    /// An instant in UTC as RFC 3339 writes it.
    pub(super) fn instant(&mut self, name: &str, value: &Json) -> Option<Timestamp> {
        let instant = value.as_text().and_then(utc);
        if instant.is_none() {
            let accepted = "a time in UTC as in RFC 3339, such as 2025-08-24T00:00:00Z";
            self.complain(name, "is not a time in UTC", accepted);
        }
        instant
    }

    /// Reports every member that was not taken.
    pub(super) fn finish(mut self, known: &str) {
        for (name, _) in std::mem::take(&mut self.members) {
            // A name may be as long as the body; the error shows its beginning.
            let name: String = name.chars().take(64).collect();
            self.complain(&name, "is not a known field", known);
        }
    }
}

/// The time parser accepts more forms than RFC 3339, so the shape is checked first.
pub(crate) fn utc(text: &str) -> Option<Timestamp> {
    let (date_time, rest) = text.split_at_checked(19)?;
    let shape = date_time.bytes().map(|byte| match byte {
        b'0'..=b'9' => b'0',
        byte => byte,
    });
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        None => ("0", rest),
    };
    let is_utc = matches!(zone, "Z" | "+00:00" | "-00:00");
    if !shape.eq(*b"0000-00-00T00:00:00") || fraction.is_empty() || !is_utc {
        return None;
    }
    text.parse().ok()
}
