//! What the server measures. Names are interface.

use metrics::{Unit, describe_counter, describe_histogram};

/// Messages enqueued over HTTP, repeats not counted; label `queue`.
pub const ENQUEUED: &str = "consign_enqueued_total";
/// Requests answered; labels `method`, `route` (the template, never a path) and `status`.
pub const REQUESTS: &str = "consign_http_requests_total";
/// Time from a request's headers to its answer; labels `method` and `route`.
pub const REQUEST_SECONDS: &str = "consign_http_request_seconds";

/// Describes each metric to the recorder.
pub fn describe() {
    describe_counter!(
        ENQUEUED,
        Unit::Count,
        "Messages enqueued over HTTP, repeats not counted"
    );
    describe_counter!(REQUESTS, Unit::Count, "HTTP requests answered");
    describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "Time from a request's headers to its answer"
    );
}
