//! Progress of long work, on standard error when it is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar when the end is known, a counter when it is not, nothing when nobody watches.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(total: Option<u64>, json: bool) -> Self {
        // The draw target for standard error is hidden by itself when that is not a terminal.
        let target = match json {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let template = match total {
            Some(_) => "{wide_bar} {pos}/{len} messages, {per_sec}, {eta} left",
            None => "{spinner} {pos} messages, {per_sec}",
        };
        let style = ProgressStyle::with_template(template)
            .expect("invariant: the templates above are well formed");
        let bar = ProgressBar::with_draw_target(total, target).with_style(style);
        Self(bar)
    }

    pub(crate) fn add(&self, messages: usize) {
        self.0.inc(messages as u64);
    }

    /// Leaves the line to what is printed next.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
