//! How long a sink takes for itself.

use std::time::Duration;

/// A little less than the worker allows: a sink's own verdict is more precise than a timeout.
pub(crate) fn own_limit(timeout: Duration) -> Duration {
    timeout - (timeout / 20).min(Duration::from_millis(100))
}
