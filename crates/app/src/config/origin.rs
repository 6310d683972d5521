//! The origin of a value.

use std::fmt;

use serde::Serialize;

/// Where a value was set. Later ones win over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
    /// Not set: the default.
    Default,
    /// The settings used while there is no file.
    Example,
    /// A line of a file.
    File {
        /// Its path as it was named.
        file: String,
        /// From 1.
        line: usize,
    },
    /// A variable.
    Environment {
        /// Its name.
        name: String,
    },
    /// The command line.
    Flag {
        /// With its dashes.
        name: &'static str,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Example => f.write_str("example"),
            Self::File { file, line } => write!(f, "{file}:{line}"),
            Self::Environment { name } => f.write_str(name),
            Self::Flag { name } => f.write_str(name),
        }
    }
}
