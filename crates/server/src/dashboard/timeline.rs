//! The life of a message as a band: how long it waited, and how long each attempt took. Short and
//! long times differ by far, so that widths grow with the logarithm of a time; a table has the times.

use std::fmt::Write as _;

use consign_kernel::{Attempt, Explanation, State};
use jiff::Timestamp;

use super::words::{Moment, took};

const WIDTH: f64 = 1_000.0;
/// The last of them; a message that is requeued again and again has more.
const PHASES_MAX: usize = 40;

/// The phases of a message, oldest first.
pub(super) struct Timeline {
    /// The band, as SVG. Holds only numbers and fixed texts.
    pub(super) band: String,
    pub(super) phases: Vec<Phase>,
    /// Whether there were others before.
    pub(super) is_cut: bool,
}

/// A time of waiting, or an attempt.
pub(super) struct Phase {
    class: &'static str,
    pub(super) what: String,
    pub(super) from: Moment,
    pub(super) took: String,
    /// What came of it.
    pub(super) result: String,
    millis: i128,
}

impl Timeline {
    pub(super) fn new(explanation: &Explanation, attempts: &[Attempt]) -> Self {
        let now = explanation.now;
        let mut phases = Vec::new();
        let mut at = explanation.message.created_at;
        for attempt in attempts {
            if attempt.claimed_at > at {
                phases.push(waited(at, attempt.claimed_at, now));
            }
            phases.push(Phase {
                class: attempt.outcome.as_str(),
                what: format!("attempt {}: leased and sent", attempt.attempt_no),
                result: match &attempt.code {
                    Some(code) => format!("{}, {code}", attempt.outcome.as_str()),
                    None => attempt.outcome.as_str().to_owned(),
                },
                ..phase(attempt.claimed_at, attempt.finished_at, now)
            });
            at = attempt.finished_at;
        }
        match explanation.state {
            State::Delivered { .. } | State::Discarded { .. } | State::Dead { .. } => {}
            State::Leased { .. } => phases.push(Phase {
                class: "leased",
                what: "since the last result, now leased".to_owned(),
                result: "not known yet".to_owned(),
                ..phase(at, now, now)
            }),
            _ => phases.push(waited(at, now, now)),
        }
        let cut = phases.len().saturating_sub(PHASES_MAX);
        phases.drain(..cut);
        Self {
            band: band(&phases),
            phases,
            is_cut: cut > 0,
        }
    }
}

fn phase(from: Timestamp, to: Timestamp, now: Timestamp) -> Phase {
    Phase {
        class: "wait",
        what: String::new(),
        from: Moment::new(from, now),
        took: took(from, to),
        result: String::new(),
        millis: to.duration_since(from).as_millis().max(0),
    }
}

fn waited(from: Timestamp, to: Timestamp, now: Timestamp) -> Phase {
    Phase {
        what: "waited".to_owned(),
        ..phase(from, to, now)
    }
}

fn band(phases: &[Phase]) -> String {
    // A phase without a time is visible too.
    let weights: Vec<f64> = phases
        .iter()
        .map(|phase| (1.0 + phase.millis as f64 / 20.0).ln() + 0.7)
        .collect();
    let whole: f64 = weights.iter().sum();
    let mut shapes = String::new();
    let mut x = 0.0;
    for (phase, weight) in phases.iter().zip(weights) {
        let width = weight / whole * WIDTH;
        let (y, height) = match phase.class {
            "wait" => (17, 6),
            _ => (6, 28),
        };
        write!(
            shapes,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{height}\"/>",
            phase.class,
            (width - 2.0).max(1.0)
        )
        .expect("invariant: strings take everything");
        x += width;
    }
    format!(
        "<svg class=\"span\" viewBox=\"0 0 {WIDTH} 40\" role=\"img\" preserveAspectRatio=\"none\">\
         <title>Waiting and attempts from the enqueue until now; the table below has the times</title>\
         {shapes}</svg>"
    )
}
