//! What was measured, for people and for programs.

mod figure;
mod table;

use serde::Serialize;

pub use figure::{Against, Bound, Figure, Measure, Target, Unit};

use crate::{Environment, Scenario};

/// Everything one run measured, and under which conditions.
///
/// `Display` prints tables for people; serialised it is the same for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where and how it was measured.
    pub environment: Environment,
    /// What was measured.
    pub scenarios: Vec<ScenarioReport>,
}

/// The figures of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct ScenarioReport {
    /// Which.
    pub scenario: Scenario,
    /// What was measured.
    pub figures: Vec<Figure>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// How long all of it took, preparation included.
    pub took_s: f64,
}

impl Report {
    pub(crate) fn new(environment: Environment) -> Self {
        Self {
            environment,
            scenarios: Vec::new(),
        }
    }

    /// Every figure that missed its target.
    pub fn missed(&self) -> impl Iterator<Item = &Figure> {
        let figures = self.scenarios.iter().flat_map(|scenario| &scenario.figures);
        figures.filter(|figure| figure.met == Some(false))
    }
}
