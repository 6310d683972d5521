//! Parser for `git diff-tree --stdin --numstat -z`.
//!
//! A commit's name, then a field per file: `3<tab>1<tab>path`, with `-` for the numbers of a binary
//! file; for a renamed file `0<tab>0<tab>` and two more fields, the old and the new name.

use crate::derive;

/// Changes of one commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) additions: u64,
    pub(super) deletions: u64,
    /// The first paths.
    pub(super) paths: Vec<String>,
    pub(super) paths_total: u64,
    /// Whether something in a path was replaced.
    pub(super) is_lossy: bool,
}

/// A parsed field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// The following files belong to this commit.
    Commit(&'a [u8]),
    /// A file.
    File {
        /// Added and deleted.
        lines: (u64, u64),
        /// `None`: two fields follow, the second is the path.
        path: Option<&'a [u8]>,
    },
}

/// Parses a field; `None` if it is neither.
pub(super) fn field(bytes: &[u8]) -> Option<Field<'_>> {
    let mut parts = bytes.splitn(3, |byte| *byte == b'\t');
    let first = parts.next()?;
    let Some(second) = parts.next() else {
        let is_name = !first.is_empty() && first.iter().all(u8::is_ascii_hexdigit);
        return is_name.then_some(Field::Commit(first));
    };
    let path = parts.next()?;
    Some(Field::File {
        lines: (count(first)?, count(second)?),
        path: (!path.is_empty()).then_some(path),
    })
}

fn count(digits: &[u8]) -> Option<u64> {
    match digits {
        b"-" => Some(0),
        digits => std::str::from_utf8(digits).ok()?.parse().ok(),
    }
}

impl Numbers {
    /// Adds a file.
    pub(super) fn add(&mut self, (additions, deletions): (u64, u64), path: &[u8]) {
        self.additions = self.additions.saturating_add(additions);
        self.deletions = self.deletions.saturating_add(deletions);
        self.paths_total += 1;
        if self.paths.len() < derive::PATHS_MAX {
            let (path, is_lossy) = derive::text(path);
            self.paths.push(path);
            self.is_lossy |= is_lossy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_distinguished() {
        let file = |additions, deletions, path| Field::File {
            lines: (additions, deletions),
            path,
        };
        let table: [(&[u8], Option<Field<'_>>); 8] = [
            (b"ae8e65d4", Some(Field::Commit(b"ae8e65d4"))),
            (b"3\t1\ta b", Some(file(3, 1, Some(b"a b")))),
            (b"-\t-\tx.png", Some(file(0, 0, Some(b"x.png")))),
            (b"0\t0\t", Some(file(0, 0, None))),
            // A path may hold everything but U+0000.
            (b"1\t0\ta\tb\nc", Some(file(1, 0, Some(b"a\tb\nc")))),
            (b"", None),
            (b"fatal: bad", None),
            (b"1\t2", None),
        ];
        for (bytes, expected) in table {
            assert_eq!(field(bytes), expected, "{:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn the_first_paths_are_kept_and_all_are_counted() {
        let mut numbers = Numbers::default();
        for n in 0..60 {
            numbers.add((1, 2), format!("f{n}").as_bytes());
        }
        assert_eq!((numbers.additions, numbers.deletions), (60, 120));
        assert_eq!((numbers.paths.len(), numbers.paths_total), (50, 60));
        assert!(!numbers.is_lossy);
        let mut odd = Numbers::default();
        odd.add((1, 0), b"a\xff\n");
        assert_eq!(odd.paths, ["a\u{fffd}\n"]);
        assert!(odd.is_lossy);
    }
}
