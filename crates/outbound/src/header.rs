//! Credentials in headers.

use consign_redact::Secret;
use reqwest::header::{HeaderValue, InvalidHeaderValue};

/// A header's value that is not printed in logs of requests.
pub fn sensitive(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The value of `Authorization` for a bearer token.
pub fn bearer(token: &Secret) -> Result<HeaderValue, InvalidHeaderValue> {
    sensitive(&format!("Bearer {}", token.reveal()))
}
