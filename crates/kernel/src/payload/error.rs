//! Why a text or a value is no payload.

use std::fmt::Write as _;

use crate::{Error, PAYLOAD_DEPTH_MAX};

/// How much of a name is shown.
const NAME_CHARS_MAX: usize = 64;

/// Why a document cannot be a payload, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", place_before(.place))]
pub struct PayloadError {
    /// The path of the place, such as `details.items[3]`; empty for the document itself.
    pub place: String,
    /// What is wrong there and what is accepted.
    pub why: String,
    /// Whether it is not JSON at all; otherwise it is JSON that no store can keep.
    pub is_syntax: bool,
}

impl PayloadError {
    /// The error of a document called `name`, such as `payload`, with the place in it.
    pub fn named(self, name: &str) -> Error {
        let dot = if self.place.is_empty() || self.place.starts_with('[') {
            ""
        } else {
            "."
        };
        Error::invalid(format!("{name}{dot}{}", self.place), self.why)
    }
}

fn place_before(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!("{place}: "),
    }
}

/// What can be wrong at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not JSON.
    Syntax,
    /// An object has two members of this name.
    DuplicateName,
    /// U+0000, which JSON columns cannot store.
    Nul,
    /// Half of a surrogate pair, which is no character.
    LoneSurrogate,
    /// A number that PostgreSQL's `numeric` does not hold.
    BeyondNumeric,
    /// A number that a double would round.
    Rounded,
    TooDeep,
    /// Written out, the document is longer than this many bytes.
    TooLong(usize),
}

impl Fault {
    fn why(self) -> String {
        match self {
            Self::Syntax => "is not JSON".to_owned(),
            Self::DuplicateName => "is a duplicate name; an object holds each name once".to_owned(),
            Self::Nul => "contains U+0000, which JSON columns cannot store".to_owned(),
            Self::LoneSurrogate => {
                "contains half of a surrogate pair, which is no character; send both \\u escapes \
                 or the character itself"
                    .to_owned()
            }
            Self::BeyondNumeric => {
                "is a number beyond 131072 digits before or 16383 digits after the decimal point"
                    .to_owned()
            }
            Self::Rounded => {
                "is a number that would be rounded, neither a 64-bit integer nor a double; \
                              send it as text"
                    .to_owned()
            }
            Self::TooDeep => format!("is nested more than {PAYLOAD_DEPTH_MAX} levels deep"),
            Self::TooLong(bytes_max) => format!(
                "is longer than {bytes_max} bytes as JSON with every number written out; store \
                 the data elsewhere and send a reference"
            ),
        }
    }
}

/// A fault on its way up from the place where it was found.
#[derive(Debug)]
pub(super) struct FaultAt {
    pub(super) fault: Fault,
    /// Segments of the path, innermost first.
    segments: Vec<String>,
}

impl From<Fault> for FaultAt {
    fn from(fault: Fault) -> Self {
        let segments = Vec::new();
        Self { fault, segments }
    }
}

impl FaultAt {
    /// The same, in the member whose name has this JSON text between its quotes.
    pub(super) fn in_member(mut self, name: &str) -> Self {
        let is_plain = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
        let cut = if shown.len() < name.len() { "…" } else { "" };
        let is_bare = !name.is_empty() && name.chars().all(is_plain);
        self.segments.push(if is_bare {
            format!(".{shown}{cut}")
        } else {
            format!("[\"{shown}{cut}\"]")
        });
        self
    }

    /// The same, in the list's element of this index.
    pub(super) fn in_element(mut self, index: usize) -> Self {
        let mut segment = String::new();
        // Writing to a text cannot fail.
        let _: std::fmt::Result = write!(segment, "[{index}]");
        self.segments.push(segment);
        self
    }

    pub(super) fn into_error(mut self) -> PayloadError {
        // For a document that is too deep, the beginning of the path is enough.
        if self.fault == Fault::TooDeep {
            self.segments.clear();
        }
        self.segments.reverse();
        let place = self.segments.concat();
        PayloadError {
            place: place.strip_prefix('.').map_or(place.clone(), str::to_owned),
            why: self.fault.why(),
            is_syntax: self.fault == Fault::Syntax,
        }
    }
}
