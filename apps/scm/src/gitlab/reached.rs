//! Position in the list of merge requests.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::time;
use crate::{SourcePosition, Watermark};

/// Changes become visible at commit, a little later than their timestamp.
const OVERLAP: SignedDuration = SignedDuration::from_secs(60);
/// Maximum remembered recent changes. Others are read again, which is harmless.
const RECENT_MAX: usize = 100;

/// Time of a change and number of the merge request.
pub(super) type Stamp = (Timestamp, i64);

/// The last written merge request, and the recent ones before it: others that appear there later
/// are new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestPosition {
    at: Option<(Timestamp, Option<i64>)>,
    recent: BTreeSet<Stamp>,
}

impl RequestPosition {
    /// From a watermark.
    pub(super) fn read(from: &Watermark) -> Self {
        let parse = |value: &Value| time::parse(value.as_str()?);
        let Some(time) = from.place.get("last_mr_updated_at").and_then(parse) else {
            return Self::default();
        };
        let iid = from.place.get("last_mr_iid").and_then(Value::as_i64);
        let recent = from.place.get("recent").and_then(Value::as_array);
        let stamp = |pair: &Value| Some((parse(pair.get(0)?)?, pair.get(1)?.as_i64()?));
        Self {
            at: Some((time, iid)),
            recent: recent.into_iter().flatten().filter_map(stamp).collect(),
        }
    }

    /// As a watermark; `None` at the beginning.
    pub(super) fn to_place(&self) -> Option<SourcePosition> {
        let (time, iid) = self.at?;
        let mut place = SourcePosition::new();
        place.insert("last_mr_updated_at".into(), json!(time.to_string()));
        place.insert("last_mr_iid".into(), json!(iid));
        let recent = self.recent.iter();
        let recent = recent.map(|(time, iid)| json!([time.to_string(), iid]));
        place.insert("recent".into(), recent.collect());
        Some(place)
    }

    /// From when to continue.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.at.map(|(time, _)| earlier(time))
    }

    /// Those stored at or after that time.
    pub(super) fn recent(&self) -> impl Iterator<Item = Stamp> {
        self.recent.iter().copied()
    }

    /// Whether one is stored, as far as it is remembered.
    pub(super) fn covers(&self, stamp: Stamp) -> bool {
        let is_older = |first: &Stamp| stamp < *first;
        self.recent.contains(&stamp) || self.recent.first().is_some_and(is_older)
    }

    /// Adds one. The position never moves back.
    pub(super) fn add(&mut self, stamp: Stamp) {
        if time::advances(self.at, stamp) {
            self.at = Some((stamp.0, Some(stamp.1)));
        }
        let Some(since) = self.since() else {
            return;
        };
        self.recent.insert(stamp);
        self.recent.retain(|(time, _)| *time >= since);
        while self.recent.len() > RECENT_MAX {
            self.recent.pop_first();
        }
    }
}

fn earlier(time: Timestamp) -> Timestamp {
    time.checked_sub(OVERLAP).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn watermark(place: Option<SourcePosition>) -> Watermark {
        Watermark {
            place: place.unwrap_or_default(),
            ..Watermark::default()
        }
    }

    #[test]
    fn it_moves_on_and_never_back() {
        let mut reached = RequestPosition::default();
        assert_eq!((reached.to_place(), reached.since()), (None, None));
        for (stamp, expected) in [
            ((at(0), 5), (at(0), 5)),
            ((at(0), 4), (at(0), 5)),
            ((at(0), 10), (at(0), 10)),
            ((at(-1), 11), (at(0), 10)),
            ((at(100), 1), (at(100), 1)),
        ] {
            reached.add(stamp);
            assert_eq!(reached.at, Some((expected.0, Some(expected.1))));
        }
        assert_eq!(reached.recent().collect::<Vec<_>>(), [(at(100), 1)]);
        assert_eq!(reached.since(), Some(at(40)));
        assert!(reached.covers((at(100), 1)) && reached.covers((at(3), 9)));
        assert!(!reached.covers((at(100), 2)) && !reached.covers((at(101), 1)));
        assert!(!RequestPosition::default().covers((at(0), 1)));
    }

    #[test]
    fn it_is_what_was_stored() {
        let mut reached = RequestPosition::default();
        for n in 0..300 {
            reached.add((at(n / 10), n));
        }
        assert_eq!(reached.recent().count(), RECENT_MAX);
        assert_eq!(
            RequestPosition::read(&watermark(reached.to_place())),
            reached
        );
        // As the original wrote it.
        let mut place = SourcePosition::new();
        place.insert(
            "last_mr_updated_at".into(),
            json!("2024-01-15T20:00:00+08:00"),
        );
        let read = RequestPosition::read(&watermark(Some(place.clone())));
        assert_eq!(read.at.unwrap().0.to_string(), "2024-01-15T12:00:00Z");
        place.insert("last_mr_updated_at".into(), json!("garbage"));
        assert_eq!(
            RequestPosition::read(&watermark(Some(place))),
            RequestPosition::default()
        );
    }
}
