//! What is wrong with a configuration.

use std::fmt;

use super::{origin::Origin, path::KeyPath};
use crate::failure::{Exit, Failure};

/// One thing that is wrong.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Where it was said, if anywhere in particular.
    pub(crate) origin: Option<Origin>,
    /// Which setting, if it is about one.
    pub(crate) path: KeyPath,
    /// What is wrong and what is expected.
    pub(crate) what: String,
}

impl Problem {
    pub(crate) fn at(origin: &Origin, path: &KeyPath, what: impl Into<String>) -> Self {
        Self {
            origin: Some(origin.clone()),
            path: path.clone(),
            what: what.into(),
        }
    }

    /// The line of the file, so that a file is mended from top to bottom.
    pub(crate) fn line(&self) -> usize {
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

/// All that is wrong, one line each: somebody who mends a file wants to mend it once.
pub(crate) fn failure(problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Failure::new(Exit::Usage, "config", lines.join("\n"))
}
