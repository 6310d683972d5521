//! Dead messages, by queue and code.

use super::{
    DEATHS_WINDOW, OpenProblem, ProblemKind, Severity, Situation, Trend, many, seconds, span,
};
use crate::DeadCause;

/// So many deaths within the window are many.
const MANY: u64 = 10;

impl Situation {
    /// A problem for each cause of deaths.
    pub(super) fn deaths(&self) -> impl Iterator<Item = OpenProblem> {
        self.causes.iter().map(deaths)
    }
}

fn deaths(cause: &DeadCause) -> OpenProblem {
    let DeadCause { code, recent, .. } = cause;
    let mut text = format!("{} dead with {code}", many(cause.messages, "message"));
    if *recent > 0 {
        let window = span(seconds(DEATHS_WINDOW));
        text = format!("{text}, {recent} of them in the last {window}");
    }
    let severity = if *recent >= MANY {
        Severity::Medium
    } else {
        Severity::Low
    };
    let problem = OpenProblem::new(ProblemKind::Deaths, severity, Some(&cause.queue), text);
    OpenProblem {
        code: Some(code.clone()),
        count: cause.messages,
        since: Some(cause.first_at),
        trend: Trend::of(*recent, cause.before),
        ..problem.about(code)
    }
}
