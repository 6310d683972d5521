//! Memories as they are read, and filters: the same for every backend.

use consign_kernel::{Error, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A stored memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryItem {
    /// The backend's id.
    pub id: String,
    /// The text.
    pub text: String,
    /// Its space.
    pub space: String,
    /// `PROCEDURE`, `DECISION` and so on, if set.
    pub kind: Option<String>,
    /// The actor who stored it.
    pub actor: Option<String>,
    /// Time of creation; `None` where the backend does not return it.
    pub created_at: Option<Timestamp>,
    /// Relevance for a query; comparable within one answer only.
    pub score: Option<f64>,
    /// Evidence.
    pub evidence: Vec<Value>,
    /// Fields of the writer; none of the fields above is read from here.
    pub meta: Map<String, Value>,
    /// Id of the older version that it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<String>,
    /// Id of the newer version that replaced it; such a memory is neither found nor listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
}

/// Filter. Absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryFilter {
    /// Of this kind.
    pub kind: Option<String>,
    /// Stored by this actor.
    pub actor: Option<String>,
    /// From this time on.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// With these values in `meta`.
    pub meta: Map<String, Value>,
}

impl MemoryFilter {
    /// Whether a memory matches.
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

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search {
    /// The query.
    pub query: String,
    /// In these spaces only.
    pub spaces: Vec<String>,
    /// Further conditions.
    pub filter: MemoryFilter,
    /// Maximum results.
    pub top_k: u32,
}

/// A page of memories, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// In these spaces only.
    pub spaces: Vec<String>,
    /// Further conditions.
    pub filter: MemoryFilter,
    /// Cursor: [`ItemPage::next`] of the page before.
    pub cursor: Option<String>,
    /// Maximum results.
    pub limit: u32,
}

/// The answer to a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPage {
    /// Fewer than the limit does not mean that there are no more.
    pub items: Vec<MemoryItem>,
    /// Cursor of the next page; `None` on the last.
    pub next: Option<String>,
}

impl Listing {
    /// Time and id in the cursor, for memories in the logbook.
    pub fn after(&self) -> Result<Option<(Timestamp, &str)>> {
        let Some(cursor) = self.cursor.as_deref() else {
            return Ok(None);
        };
        let parts = cursor.split_once(':').and_then(|(micros, id)| {
            let at = Timestamp::from_microsecond(micros.parse().ok()?).ok()?;
            Some((at, id))
        });
        let none = || Error::invalid("cursor", "is not a cursor of a page of memories");
        parts.map(Some).ok_or_else(none)
    }
}

impl ItemPage {
    /// A page from a query with one more row than the page has.
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
