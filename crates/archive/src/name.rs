//! Names of the files in an archive.

use std::fmt;

use consign_kernel::MessageId;

use crate::{Error, Result};

const DIGITS: usize = 20;

/// The bounds of the message ids in one data file, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdRange {
    /// The smallest id that the file may hold; 0 or more.
    pub first: MessageId,
    /// The largest id that the file may hold.
    pub last: MessageId,
}

impl IdRange {
    /// Whether the id is within the bounds.
    pub fn contains(&self, id: MessageId) -> bool {
        (self.first..=self.last).contains(&id)
    }

    pub(crate) fn validate(self) -> Result<Self> {
        if self.first.0 >= 0 && self.first <= self.last {
            Ok(self)
        } else {
            Err(Error::InvalidRange { range: self })
        }
    }
}

/// A file that a writer makes. Every other file in the folder is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Data { range: IdRange, generation: u64 },
    DataDraft { range: IdRange, generation: u64 },
    Manifest { range: IdRange },
    ManifestDraft { range: IdRange },
}

impl Name {
    /// Reads a file name; none for one that no writer makes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("messages-")?;
        let (first, rest) = rest.split_once('-')?;
        let (last, rest) = rest.split_at_checked(DIGITS)?;
        let id = |digits: &str| digits.parse().ok().map(MessageId);
        let (first, last) = (id(first)?, id(last)?);
        let range = IdRange { first, last };
        let name = match rest {
            ".json" => Self::Manifest { range },
            ".json.tmp" => Self::ManifestDraft { range },
            rest => {
                let (generation, extension) = rest.strip_prefix('-')?.split_once('.')?;
                let generation = generation.parse().ok()?;
                match extension {
                    "jsonl.zst" => Self::Data { range, generation },
                    "jsonl.zst.tmp" => Self::DataDraft { range, generation },
                    _ => return None,
                }
            }
        };
        // Rejects other spellings of the same numbers.
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Data { range, .. }
        | Self::DataDraft { range, .. }
        | Self::Manifest { range }
        | Self::ManifestDraft { range }) = self;
        let (first, last) = (range.first.0, range.last.0);
        write!(f, "messages-{first:0DIGITS$}-{last:0DIGITS$}")?;
        match self {
            Self::Data { generation, .. } => write!(f, "-{generation}.jsonl.zst"),
            Self::DataDraft { generation, .. } => write!(f, "-{generation}.jsonl.zst.tmp"),
            Self::Manifest { .. } => f.write_str(".json"),
            Self::ManifestDraft { .. } => f.write_str(".json.tmp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_names_it_writes_and_no_others() {
        let range = IdRange {
            first: MessageId(1),
            last: MessageId(i64::MAX),
        };
        let data = Name::Data {
            range,
            generation: 12,
        };
        assert_eq!(
            data.to_string(),
            "messages-00000000000000000001-09223372036854775807-12.jsonl.zst"
        );
        let draft = Name::DataDraft {
            range,
            generation: 12,
        };
        let (manifest, manifest_draft) = (Name::Manifest { range }, Name::ManifestDraft { range });
        for name in [data, draft, manifest, manifest_draft] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        for text in [
            "messages-1-2.json",
            "messages-00000000000000000001-00000000000000000002-01.jsonl.zst",
            "messages-00000000000000000001-00000000000000000002-+1.jsonl.zst",
            "messages-00000000000000000001-00000000000000000002.jsonl.zst",
            "messages-00000000000000000001-00000000000000000002-1.jsonl",
            "messages-00000000000000000001-0000000000000000000\u{e9}.json",
            "notes.json",
            ".lock",
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
        }
    }
}
