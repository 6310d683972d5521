//! What is wrong with a configuration.

use std::fmt;

use super::{origin::Origin, path::KeyPath};
use crate::failure::{Exit, Failure};

/// One thing that is wrong.
#[derive(Debug)]
pub struct Problem {
    /// The origin of the value, if there is one.
    pub origin: Option<Origin>,
    /// Which setting, if it is about one.
    pub path: KeyPath,
    /// What is wrong and what is expected.
    pub what: String,
}

impl Problem {
    /// A problem with a value that has an origin.
    pub fn at(origin: &Origin, path: &KeyPath, what: impl Into<String>) -> Self {
        Self {
            origin: Some(origin.clone()),
            path: path.clone(),
            what: what.into(),
        }
    }

    /// The line of the file, so that problems are listed from top to bottom.
    pub fn line(&self) -> usize {
        match self.origin {
            Some(Origin::File { line, .. }) => line,
            _ => usize::MAX,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if !self.path.segments().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.what)
    }
}

/// Every problem, one line each, so that a file can be corrected in one pass.
pub fn failure(problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Failure::new(Exit::Usage, "config", lines.join("\n"))
}
