//! Reading an answer's body, with care: it may be endless, slow or broken.

use std::time::Duration;

use consign_outbound::{ReadLimit, read_body};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A body this short is read to its end, so that the connection can be used again.
const READ_BYTES_MAX: usize = 64 * 1024;
/// As much of it is kept, if any.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// The outcome is known by then; the rest is worth little time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads what there is to read before `ends` and answers what is worth keeping.
///
/// Whatever fails here, the status has been received and decides the verdict.
pub(super) async fn read(response: Response, ends: Instant) -> Value {
    let status = response.status().as_u16();
    let ends = ends.min(Instant::now() + PATIENCE);
    let read = read_body(response, READ_BYTES_MAX, ReadLimit::Until(ends)).await;
    let is_complete = read.error.is_none() && read.bytes.len() <= KEPT_BYTES_MAX;
    let kept = &read.bytes[..read.bytes.len().min(KEPT_BYTES_MAX)];
    let text = || Value::String(String::from_utf8_lossy(kept).into_owned());
    if !is_complete {
        return json!({ "status": status, "body": text(), "cut": true });
    }
    let body = serde_json::from_slice(kept).unwrap_or_else(|_| text());
    json!({ "status": status, "body": body })
}
