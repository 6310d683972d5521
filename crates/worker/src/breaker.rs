//! The circuit breaker of a sink: when to leave it alone, and when to try it again.
//!
//! Pure: the time and the jitter come in as arguments. `shared` puts it between queues.

mod shared;

use std::time::Duration;

use tokio::time::Instant;

pub(crate) use shared::{SharedBreaker, code};

use crate::{BreakerOptions, BreakerState};

/// Counts failures that are the sink's.
#[derive(Debug)]
pub(crate) struct Breaker {
    options: BreakerOptions,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed {
        failures_in_row: u32,
        window: Window,
        recent: Recent,
    },
    Open {
        until: Instant,
        /// How long the pause was, before jitter.
        pause: Duration,
    },
    HalfOpen {
        pause: Duration,
        /// Whether a probe is under way.
        probing: bool,
    },
}

/// Whether a queue may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Without limit.
    Free,
    /// One message, whose result must be reported as the probe's.
    Probe,
    /// Nothing before then.
    WaitUntil(Instant),
    /// Nothing while another queue is probing.
    WaitForProbe,
}

impl Breaker {
    pub(crate) fn new(now: Instant, options: BreakerOptions) -> Self {
        Self {
            options,
            state: closed(now),
        }
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Requests permission to send. A caller that gets `Probe` must report a result or return the probe.
    pub(crate) fn admit(&mut self, now: Instant) -> Admission {
        match &mut self.state {
            State::Closed { .. } => Admission::Free,
            State::Open { until, .. } if now < *until => Admission::WaitUntil(*until),
            State::Open { pause, .. } => {
                let pause = *pause;
                self.state = State::HalfOpen {
                    pause,
                    probing: true,
                };
                Admission::Probe
            }
            State::HalfOpen { probing: true, .. } => Admission::WaitForProbe,
            State::HalfOpen { probing, .. } => {
                *probing = true;
                Admission::Probe
            }
        }
    }

    /// The prober found nothing to send, or was cut off.
    pub(crate) fn return_probe(&mut self) {
        if let State::HalfOpen { probing, .. } = &mut self.state {
            *probing = false;
        }
    }

    /// The sink succeeded this many times.
    pub(crate) fn succeeded(&mut self, now: Instant, count: u32, is_probe: bool) {
        match &mut self.state {
            State::Closed {
                failures_in_row,
                window,
                recent,
            } => {
                *failures_in_row = 0;
                window.add(now, self.options.window, count, 0);
                recent.add(count, false);
            }
            State::HalfOpen { .. } if is_probe => self.state = closed(now),
            // Started before the breaker opened: no evidence of the sink's state now.
            State::Open { .. } | State::HalfOpen { .. } => {}
        }
    }

    /// The sink failed. `chance` in `[0, 1)` spreads the pause.
    pub(crate) fn failed(&mut self, now: Instant, is_probe: bool, chance: f64) {
        let options = &self.options;
        match &mut self.state {
            State::Closed {
                failures_in_row,
                window,
                recent,
            } => {
                *failures_in_row = failures_in_row.saturating_add(1);
                window.add(now, options.window, 0, 1);
                recent.add(1, true);
                let is_bad = window.is_bad(options) || recent.is_bad(options);
                if *failures_in_row >= options.failures_max || is_bad {
                    self.open(now, options.pause_min, chance);
                }
            }
            State::HalfOpen { pause, .. } if is_probe => {
                let longer = pause.saturating_mul(2).min(options.pause_max);
                self.open(now, longer, chance);
            }
            State::Open { .. } | State::HalfOpen { .. } => {}
        }
    }

    fn open(&mut self, now: Instant, pause: Duration, chance: f64) {
        let spread = pause.mul_f64(0.8 + 0.4 * chance);
        self.state = State::Open {
            until: now + spread,
            pause,
        };
    }
}

fn closed(now: Instant) -> State {
    State::Closed {
        failures_in_row: 0,
        window: Window::new(now),
        recent: Recent::default(),
    }
}

/// The last deliveries, the latest in the lowest bit: set where it failed.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    failed: u64,
    count: u32,
}

impl Recent {
    fn add(&mut self, count: u32, failed: bool) {
        let shifted = self.failed.checked_shl(count).unwrap_or(0);
        self.failed = shifted | u64::from(failed);
        self.count = self.count.saturating_add(count).min(u64::BITS);
    }

    /// None before there were enough of them.
    fn is_bad(&self, options: &BreakerOptions) -> bool {
        let looked_at = options.last_calls.min(u64::BITS);
        if looked_at == 0 || self.count < looked_at {
            return false;
        }
        let failed = (self.failed & (u64::MAX >> (u64::BITS - looked_at))).count_ones();
        f64::from(failed) > options.failure_ratio * f64::from(looked_at)
    }
}

/// Successes and failures of about one window's time, counted in two halves.
#[derive(Debug)]
struct Window {
    half_since: Instant,
    current: Tally,
    previous: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    good: u64,
    bad: u64,
}

impl Window {
    fn new(now: Instant) -> Self {
        Self {
            half_since: now,
            current: Tally::default(),
            previous: Tally::default(),
        }
    }

    fn add(&mut self, now: Instant, window: Duration, good: u32, bad: u32) {
        let age = now.saturating_duration_since(self.half_since);
        if age >= window {
            *self = Self::new(now);
        } else if age >= window / 2 {
            self.previous = self.current;
            self.current = Tally::default();
            self.half_since = now;
        }
        self.current.good += u64::from(good);
        self.current.bad += u64::from(bad);
    }

    fn is_bad(&self, options: &BreakerOptions) -> bool {
        let bad = self.current.bad + self.previous.bad;
        let all = bad + self.current.good + self.previous.good;
        all >= u64::from(options.samples_min) && bad as f64 >= options.failure_ratio * all as f64
    }
}

#[cfg(test)]
mod tests;
