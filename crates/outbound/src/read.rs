//! Reading the body of a response, which may be endless, slow or broken.

use std::time::Duration;

use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use crate::causes;

/// How long a body may take.
#[derive(Clone, Copy, Debug)]
pub enum ReadLimit {
    /// It ends before then.
    Until(Instant),
    /// A part of it comes within this time of the one before: for long bodies.
    Silence(Duration),
}

/// Why a body was not read to its end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is more of it than the reader allows.
    #[error("the answer has more than {bytes_max} bytes")]
    TooLong {
        /// How much the reader allows.
        bytes_max: usize,
    },
    /// The connection broke.
    #[error("connection lost before the answer was complete: {0}")]
    Broken(String),
    /// It did not end in time.
    #[error("the answer was incomplete at the timeout")]
    TimedOut,
}

/// A body as far as it was read.
#[derive(Debug)]
pub struct BodyRead {
    /// At most as many as the reader allows.
    pub bytes: Vec<u8>,
    /// None if these are all.
    pub error: Option<ReadError>,
}

impl BodyRead {
    /// The whole body.
    pub fn complete(self) -> Result<Vec<u8>, ReadError> {
        match self.error {
            None => Ok(self.bytes),
            Some(error) => Err(error),
        }
    }
}

/// Reads a body, and no more than `bytes_max` of it: it must not fill the memory.
pub async fn read_body(mut response: Response, bytes_max: usize, limit: ReadLimit) -> BodyRead {
    let mut bytes = Vec::new();
    let error = loop {
        let ends = match limit {
            ReadLimit::Until(ends) => ends,
            ReadLimit::Silence(silence) => Instant::now() + silence,
        };
        match timeout_at(ends, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let room = bytes_max - bytes.len();
                bytes.extend_from_slice(&chunk[..room.min(chunk.len())]);
                if chunk.len() > room {
                    break Some(ReadError::TooLong { bytes_max });
                }
            }
            Ok(Ok(None)) => break None,
            Ok(Err(error)) => break Some(ReadError::Broken(causes(&error.without_url()))),
            Err(_) => break Some(ReadError::TimedOut),
        }
    };
    BodyRead { bytes, error }
}
