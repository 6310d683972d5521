//! Reading an answer's body, with care: it may be endless, slow or broken.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

/// A body this short is read to its end, so that the connection can be used again.
const READ_BYTES_MAX: usize = 64 * 1024;
/// As much of it is kept, if any.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// The outcome is known by then; nobody waits long for the rest.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads what there is to read before `ends` and answers what is worth keeping.
///
/// Whatever goes wrong here, the status has been received and its verdict stands.
pub(super) async fn read(mut response: Response, ends: Instant) -> Value {
    let status = response.status().as_u16();
    let ends = ends.min(Instant::now() + PATIENCE);
    let mut kept = Vec::new();
    let mut read_bytes = 0;
    let mut complete = false;
    while read_bytes < READ_BYTES_MAX {
        match timeout_at(ends, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let room = KEPT_BYTES_MAX - kept.len();
                kept.extend_from_slice(&chunk[..room.min(chunk.len())]);
                read_bytes += chunk.len();
            }
            Ok(Ok(None)) => {
                complete = read_bytes <= KEPT_BYTES_MAX;
                break;
            }
            Ok(Err(_)) | Err(_) => break,
        }
    }
    let text = || Value::String(String::from_utf8_lossy(&kept).into_owned());
    if !complete {
        return json!({ "status": status, "body": text(), "cut": true });
    }
    let body = serde_json::from_slice(&kept).unwrap_or_else(|_| text());
    json!({ "status": status, "body": body })
}
