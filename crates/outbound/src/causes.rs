//! Short error texts.

use std::{error::Error, fmt::Write};

/// What lies at the bottom of an error. The layers above only repeat that something failed.
pub fn causes(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let separator = if text.is_empty() { "" } else { ": " };
        write!(text, "{separator}{cause}").expect("invariant: writing to a string does not fail");
        source = cause.source();
    }
    if text.is_empty() {
        error.to_string()
    } else {
        text
    }
}
