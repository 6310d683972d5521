//! How far merge requests were read.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::time;
use crate::{Place, Watermark};

/// Changes become visible when their transaction ends, a little later than the time they bear.
const OVERLAP: SignedDuration = SignedDuration::from_secs(60);
/// How many of those that changed last are remembered. The others are read again, which does no harm.
const RECENT_MAX: usize = 100;

/// When a merge request changed, and its number.
pub(super) type Stamp = (Timestamp, i64);

/// The merge request that was written last, and what is known of the time before it: what shows there
/// later is new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reached {
    at: Option<(Timestamp, Option<i64>)>,
    recent: BTreeSet<Stamp>,
}

impl Reached {
    /// As a watermark says it.
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

    /// As watermarks have it; nothing before there is anything.
    pub(super) fn to_place(&self) -> Option<Place> {
        let (time, iid) = self.at?;
        let mut place = Place::new();
        place.insert("last_mr_updated_at".into(), json!(time.to_string()));
        place.insert("last_mr_iid".into(), json!(iid));
        let recent = self.recent.iter();
        let recent = recent.map(|(time, iid)| json!([time.to_string(), iid]));
        place.insert("recent".into(), recent.collect());
        Some(place)
    }

    /// From when on to look for more.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.at.map(|(time, _)| earlier(time))
    }

    /// Those that are known at or after that time.
    pub(super) fn recent(&self) -> impl Iterator<Item = Stamp> {
        self.recent.iter().copied()
    }

    /// Whether one is known, as far as can be told.
    pub(super) fn covers(&self, stamp: Stamp) -> bool {
        let is_older = |first: &Stamp| stamp < *first;
        self.recent.contains(&stamp) || self.recent.first().is_some_and(is_older)
    }

    /// One more. It moves on, never back (facts 11).
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

    fn watermark(place: Option<Place>) -> Watermark {
        Watermark {
            place: place.unwrap_or_default(),
            ..Watermark::default()
        }
    }

    #[test]
    fn it_moves_on_and_never_back() {
        let mut reached = Reached::default();
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
        assert!(!Reached::default().covers((at(0), 1)));
    }

    #[test]
    fn it_is_what_was_stored() {
        let mut reached = Reached::default();
        for n in 0..300 {
            reached.add((at(n / 10), n));
        }
        assert_eq!(reached.recent().count(), RECENT_MAX);
        assert_eq!(Reached::read(&watermark(reached.to_place())), reached);
        // Facts 11: as the original wrote it.
        let mut place = Place::new();
        place.insert(
            "last_mr_updated_at".into(),
            json!("2024-01-15T20:00:00+08:00"),
        );
        let read = Reached::read(&watermark(Some(place.clone())));
        assert_eq!(read.at.unwrap().0.to_string(), "2024-01-15T12:00:00Z");
        place.insert("last_mr_updated_at".into(), json!("garbage"));
        assert_eq!(Reached::read(&watermark(Some(place))), Reached::default());
    }
}
