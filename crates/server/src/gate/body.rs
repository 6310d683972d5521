//! Reading a request's body, up to a size and within a time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::problem::{Problem, codes};

/// The whole body.
pub(crate) async fn read(body: Body, bytes_max: usize, limit: Duration) -> Result<Bytes, Problem> {
    use axum::body::HttpBody;
    let too_large = || {
        let detail = format!("a request's body may have {bytes_max} bytes");
        Problem::new(codes::BODY_TOO_LARGE, detail).with("bytes_max", bytes_max)
    };
    // A client that says how much it will send is told at once.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let reading = Limited::new(body, bytes_max).collect();
    let read = timeout(limit, reading).await.map_err(|_| {
        let detail = format!("the body did not arrive within {} ms", limit.as_millis());
        Problem::new(codes::BODY_TIMEOUT, detail)
    })?;
    match read {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => {
            let detail = format!("the body broke off: {error}");
            Err(Problem::new(codes::BAD_JSON, detail))
        }
    }
}
