//! The name of a setting: `server.listen`, `queues.events.sink.url`.

use std::fmt;

/// The path of a setting, one segment per table. Queues may have dots in their names, so a plain
/// string would not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<String>);

impl KeyPath {
    /// Of everything.
    pub fn root() -> Self {
        Self(Vec::new())
    }

    /// For paths this program writes itself, whose segments have no dots.
    pub fn of(dotted: &str) -> Self {
        Self(dotted.split('.').map(str::to_owned).collect())
    }

    /// One level deeper.
    pub fn child(&self, segment: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment.to_owned());
        Self(segments)
    }

    /// Table by table.
    pub fn segments(&self) -> &[String] {
        &self.0
    }

    /// The name within its table.
    pub fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// Whether it lies at `other` or below.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl From<Vec<String>> for KeyPath {
    fn from(segments: Vec<String>) -> Self {
        Self(segments)
    }
}

/// As it would be written in the file.
impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
            if !segment.is_empty() && segment.chars().all(bare) {
                f.write_str(segment)?
            } else {
                write!(f, "{segment:?}")?
            }
        }
        Ok(())
    }
}
