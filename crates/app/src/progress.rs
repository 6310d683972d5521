//! Progress of long work, on standard error when it is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(250);

/// A bar when the end is known, a counter when it is not, nothing when standard error is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    noun: &'static str,
}

impl Progress {
    /// Of messages.
    pub fn new(total: Option<u64>, json: bool) -> Self {
        Self::of("messages", total, json)
    }

    /// Of other things than messages.
    pub fn of(noun: &'static str, total: Option<u64>, json: bool) -> Self {
        // The draw target for standard error is hidden by itself when that is not a terminal.
        let target = if json {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(style(noun, total));
        Self { bar, noun }
    }

    /// Of work whose length is not known: that it goes on, and for how long by now.
    pub fn busy(what: &'static str, json: bool) -> Self {
        let progress = Self::of("", None, json);
        if !progress.bar.is_hidden() {
            let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
            let style = style.expect("invariant: the template is well formed");
            progress.bar.set_style(style);
            progress.bar.set_message(what);
            progress.bar.enable_steady_tick(TICK);
        }
        progress
    }

    /// So many more are done.
    pub fn add(&self, messages: usize) {
        self.bar.inc(messages as u64);
    }

    /// So much is done, of so much if that is known by now.
    pub fn set(&self, done: u64, total: Option<u64>) {
        if self.bar.length() != total {
            self.bar.set_style(style(self.noun, total));
            match total {
                Some(total) => self.bar.set_length(total),
                None => self.bar.unset_length(),
            }
        }
        self.bar.set_position(done);
    }

    /// Leaves the line to what is printed next.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(noun: &str, total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => format!("{{wide_bar}} {{pos}}/{{len}} {noun}, {{per_sec}}, {{eta}} left"),
        None => format!("{{spinner}} {{pos}} {noun}, {{per_sec}}"),
    };
    ProgressStyle::with_template(&template).expect("invariant: the templates above are well formed")
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
