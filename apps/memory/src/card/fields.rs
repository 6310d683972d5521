//! The fields of a card.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::uri::{is_sha256, mask_credentials};

/// Allowed schemes of evidence.
const SCHEMES: [&str; 4] = ["memory://", "svn://", "git://", "https://"];

/// Why a card cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardError {
    /// Every problem.
    pub problems: Vec<String>,
}

impl CardError {
    pub(super) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("; "))
    }
}

impl std::error::Error for CardError {}

/// An enum of words, parsed case-insensitively.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "&'static str")]
        pub enum $name {
            $($(#[$of])* $variant,)+
        }

        impl $name {
            /// Every one of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The value in cards.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl From<$name> for &'static str {
            fn from(word: $name) -> Self {
                word.as_str()
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let known = Self::ALL;
                let word = known.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(text.trim()));
                word.ok_or_else(|| {
                    let words = known.map(Self::as_str).join(", ");
                    format!("{text:?} is none of {words}")
                })
            }
        }
    };
}

words! {
    /// Kind of memory.
    CardKind {
        /// A fact.
        Fact = "FACT",
        /// A procedure.
        Procedure = "PROCEDURE",
        /// A common mistake.
        Pitfall = "PITFALL",
        /// A decision.
        Decision = "DECISION",
        /// What to check in reviews.
        ReviewGuide = "REVIEW_GUIDE",
        /// A reflection.
        Reflection = "REFLECTION",
    }
}

words! {
    /// Confidence.
    #[derive(Default)]
    Confidence {
        /// Very.
        High = "high",
        /// Rather.
        #[default]
        Mid = "mid",
        /// Hardly.
        Low = "low",
    }
}

words! {
    /// Audience.
    #[derive(Default)]
    Visibility {
        /// The team.
        #[default]
        Team = "team",
        /// One person.
        Private = "private",
        /// The whole organisation.
        Org = "org",
    }
}

words! {
    /// Expected validity.
    #[derive(Default)]
    Ttl {
        /// Years.
        Long = "long",
        /// Months.
        #[default]
        Mid = "mid",
        /// Weeks.
        Short = "short",
    }
}

/// Evidence of a card. Fields that cards do not show are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CardEvidence {
    /// Its URI.
    pub uri: String,
    /// Its hash.
    pub sha256: String,
    /// An event of the logbook.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub event_id: Option<String>,
    /// A revision.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub svn_rev: Option<String>,
    /// A commit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub git_commit: Option<String>,
    /// A merge request.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "text")]
    pub mr: Option<String>,
}

/// A revision may come as a number.
fn text<'de, D: Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(field)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(serde::de::Error::custom("must be a text or a number")),
    }
}

impl CardEvidence {
    fn beside(&self) -> [(&'static str, &Option<String>); 4] {
        [
            ("event_id", &self.event_id),
            ("svn_rev", &self.svn_rev),
            ("git_commit", &self.git_commit),
            ("mr", &self.mr),
        ]
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !SCHEMES.iter().any(|scheme| self.uri.starts_with(scheme)) {
            problems.push(format!("uri must begin with one of {}", SCHEMES.join(" ")));
        }
        if !is_sha256(&self.sha256) {
            problems.push("sha256 must be 64 hex digits".to_owned());
        }
        let beside = self.beside();
        let named = beside
            .iter()
            .filter_map(|(name, text)| Some((*name, text.as_ref()?)));
        for (name, text) in named.chain([("uri", &self.uri)]) {
            if text.chars().any(char::is_control) {
                problems.push(format!("{name} must be one line"));
            }
        }
        problems
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("- uri={}", mask_credentials(&self.uri)),
            format!("  sha256={}", self.sha256),
        ];
        let given = self.beside();
        let given = given
            .iter()
            .filter_map(|(name, text)| Some((name, text.as_ref()?)));
        lines.extend(given.map(|(name, text)| format!("  {name}={text}")));
        lines
    }
}
