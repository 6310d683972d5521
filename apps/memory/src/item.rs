//! A memory as it is read back, and which memories are asked for: alike for every backend.

use consign_kernel::{Error, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A memory as it is read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryItem {
    /// The backend's name for it.
    pub id: String,
    /// The text.
    pub text: String,
    /// The space it is in.
    pub space: String,
    /// `PROCEDURE`, `DECISION` and so on, if its writer gave one.
    pub kind: Option<String>,
    /// Who stored it.
    pub actor: Option<String>,
    /// Since when it is there; absent where the backend does not tell.
    pub created_at: Option<Timestamp>,
    /// How well it fits a query; more is better, only comparable within one answer.
    pub score: Option<f64>,
    /// What it is based on.
    pub evidence: Vec<Value>,
    /// What its writer wanted kept with it; none of the fields above comes from here.
    pub meta: Map<String, Value>,
    /// The older version that it replaced, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    /// The newer version that replaced it; such a memory is neither found nor listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
}

/// Which memories. Absent fields fit everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryFilter {
    /// Of this kind.
    pub kind: Option<String>,
    /// Stored by this actor.
    pub actor: Option<String>,
    /// Not older than this.
    pub since: Option<Timestamp>,
    /// Older than this.
    pub until: Option<Timestamp>,
    /// With these values in `meta`.
    pub meta: Map<String, Value>,
}

impl MemoryFilter {
    /// Whether a memory is one of them.
    pub fn fits(&self, item: &MemoryItem) -> bool {
        let is = |wanted: &Option<String>, given: &Option<String>| {
            wanted.is_none() || wanted.as_deref() == given.as_deref()
        };
        let is_in_time = match (self.since, self.until) {
            (None, None) => true,
            (since, until) => item.created_at.is_some_and(|at| {
                since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until)
            }),
        };
        let mut meta = self.meta.iter();
        is(&self.kind, &item.kind)
            && is(&self.actor, &item.actor)
            && is_in_time
            && meta.all(|(name, wanted)| item.meta.get(name) == Some(wanted))
    }

    /// Whether everything fits.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// The words.
    pub query: String,
    /// In these spaces only.
    pub spaces: Vec<String>,
    /// What else must fit.
    pub filter: MemoryFilter,
    /// How many at most.
    pub top_k: u32,
}

/// A page of memories, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// In these spaces only.
    pub spaces: Vec<String>,
    /// What else must fit.
    pub filter: MemoryFilter,
    /// Where to go on: [`ItemPage::next`] of the page before.
    pub cursor: Option<String>,
    /// How many at most.
    pub limit: u32,
}

/// The answer to a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPage {
    /// Fewer than were asked for does not mean that there are no more.
    pub items: Vec<MemoryItem>,
    /// Where to go on; none: that was the last page.
    pub next: Option<String>,
}

impl Listing {
    /// Time and name of the memory that the cursor stands for, where the logbook keeps memories.
    pub fn after(&self) -> Result<Option<(Timestamp, &str)>> {
        let Some(cursor) = self.cursor.as_deref() else {
            return Ok(None);
        };
        let parts = cursor.split_once(':').and_then(|(micros, id)| {
            let at = Timestamp::from_microsecond(micros.parse().ok()?).ok()?;
            Some((at, id))
        });
        let none = || Error::invalid("cursor", "is none of a page of memories");
        parts.map(Some).ok_or_else(none)
    }
}

impl ItemPage {
    /// A page of a logbook that was asked for one memory more than the page has.
    pub fn of(mut items: Vec<MemoryItem>, limit: u32) -> Self {
        let has_more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let last = items.last().filter(|_| has_more);
        let next = last.and_then(|last| {
            let micros = last.created_at?.as_microsecond();
            Some(format!("{micros}:{}", last.id))
        });
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn by(set: impl FnOnce(&mut MemoryFilter)) -> MemoryFilter {
        let mut filter = MemoryFilter::default();
        set(&mut filter);
        filter
    }

    #[test]
    fn every_field_of_a_filter_must_fit() {
        let item = MemoryItem {
            id: "mem-1".to_owned(),
            text: "x".to_owned(),
            space: "team:p".to_owned(),
            kind: Some("FACT".to_owned()),
            actor: Some("alice".to_owned()),
            created_at: Some(at(100)),
            score: None,
            evidence: Vec::new(),
            meta: Map::from_iter([("pr".to_owned(), json!(7)), ("kind".to_owned(), json!("x"))]),
            supersedes: None,
            superseded_by: None,
        };
        let text = |text: &str| Some(text.to_owned());
        let meta = |value: Value| value.as_object().cloned().unwrap();
        let all = MemoryFilter::default;
        for (filter, expected) in [
            (all(), true),
            (by(|filter| filter.kind = text("FACT")), true),
            (by(|filter| filter.kind = text("x")), false),
            (by(|filter| filter.actor = text("alice")), true),
            (by(|filter| filter.actor = text("bob")), false),
            (by(|filter| filter.since = Some(at(100))), true),
            (by(|filter| filter.since = Some(at(101))), false),
            (by(|filter| filter.until = Some(at(100))), false),
            (by(|filter| filter.until = Some(at(101))), true),
            (by(|filter| filter.meta = meta(json!({"pr": 7}))), true),
            (by(|filter| filter.meta = meta(json!({"pr": 8}))), false),
            (by(|filter| filter.meta = meta(json!({"mr": null}))), false),
        ] {
            assert_eq!(filter.fits(&item), expected, "{filter:?}");
        }
        let timeless = MemoryItem {
            created_at: None,
            ..item
        };
        let since = MemoryFilter {
            since: Some(at(0)),
            ..all()
        };
        assert!(!since.fits(&timeless));
    }
}
