//! A range of commits and the progress in it.
//!
//! The position of a completed synchronisation is its tip: `last_commit_sha` and `last_commit_ts`.
//! During one, `base`, `target` and `position` are set as well, with `last`, the commit before that
//! position: the range always has the same list, and `last` verifies it.

use serde_json::{Value, json};

use crate::SourcePosition;

/// A range of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommitRange {
    /// Tip of the last completed synchronisation.
    pub(super) before: (Option<String>, Option<String>),
    /// Everything up to here is stored; `None`: nothing.
    pub(super) base: Option<String>,
    pub(super) target: String,
    /// Number of written commits, and the last of them.
    pub(super) written: Option<(u64, String)>,
}

impl CommitRange {
    /// The range of an interrupted synchronisation.
    pub(super) fn stopped(place: &SourcePosition) -> Option<Self> {
        let position = place.get("position")?.as_u64()?;
        Some(Self {
            before: before(place),
            base: commit(place, "base"),
            target: commit(place, "target")?,
            written: Some((position, commit(place, "last")?)),
        })
    }

    /// The position after so many commits, with the last of them.
    pub(super) fn place_after(&self, position: u64, last: &str) -> SourcePosition {
        let mut place = SourcePosition::new();
        put(&mut place, "last_commit_sha", self.before.0.as_deref());
        put(&mut place, "last_commit_ts", self.before.1.as_deref());
        put(&mut place, "base", self.base.as_deref());
        put(&mut place, "target", Some(&self.target));
        place.insert("position".to_owned(), json!(position));
        put(&mut place, "last", Some(last));
        place
    }

    /// The position at the end.
    pub(super) fn end(&self, ts: Option<&str>) -> SourcePosition {
        let mut place = SourcePosition::new();
        put(&mut place, "last_commit_sha", Some(&self.target));
        put(&mut place, "last_commit_ts", ts);
        place
    }
}

/// The tip of the last completed synchronisation.
pub(super) fn before(place: &SourcePosition) -> (Option<String>, Option<String>) {
    let ts = place.get("last_commit_ts").and_then(Value::as_str);
    (commit(place, "last_commit_sha"), ts.map(ToOwned::to_owned))
}

/// A commit's name. An invalid one, for example edited by hand, is ignored: it must not reach a
/// program.
fn commit(place: &SourcePosition, name: &str) -> Option<String> {
    let text = place.get(name)?.as_str()?;
    is_commit(text).then(|| text.to_owned())
}

/// Whether the text is a full commit name.
pub(super) fn is_commit(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    matches!(text.len(), 40 | 64) && text.bytes().all(is_digit)
}

fn put(place: &mut SourcePosition, name: &str, value: Option<&str>) {
    place.insert(name.to_owned(), json!(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_way_is_read_back() {
        let [a, b, c] = ["a", "b", "c"].map(|digit| digit.repeat(40));
        let leg = CommitRange {
            before: (Some(a.clone()), Some("2026-01-01T00:00:00Z".to_owned())),
            base: Some(a.clone()),
            target: b.clone(),
            written: None,
        };
        let place = leg.place_after(7, &c);
        let stopped = CommitRange::stopped(&place).unwrap();
        assert_eq!(stopped.written, Some((7, c)));
        assert_eq!(
            CommitRange {
                written: None,
                ..stopped
            },
            leg
        );
        let end = leg.end(None);
        assert_eq!(CommitRange::stopped(&end), None);
        assert_eq!(before(&end), (Some(b), None));
    }

    #[test]
    fn what_is_no_commit_does_not_reach_a_program() {
        for text in [
            "--all",
            "HEAD",
            "",
            "A".repeat(40).as_str(),
            "a".repeat(41).as_str(),
        ] {
            let place =
                json!({"last_commit_sha": text, "target": text, "position": 1, "last": text});
            let place = place.as_object().unwrap();
            assert_eq!(before(place).0, None, "{text}");
            assert_eq!(CommitRange::stopped(place), None, "{text}");
        }
    }
}
