//! A request body that records whether it was sent.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Whether a request's body was handed to the transport.
///
/// As long as it was not, the receiver cannot have the message, whatever else went wrong. Once it
/// was, it may be anywhere between our buffers and the receiver's database.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyProgress(Arc<AtomicBool>);

impl BodyProgress {
    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// All of a payload in one frame.
#[derive(Debug)]
pub(crate) struct WatchedBody {
    bytes: Bytes,
    begun: BodyProgress,
}

impl WatchedBody {
    /// The body, and its progress. An empty body is never polled, so there is
    /// none: JSON has at least one byte.
    pub(crate) fn new(bytes: Vec<u8>) -> (Self, BodyProgress) {
        assert!(!bytes.is_empty(), "invariant: JSON is never empty");
        let begun = BodyProgress::default();
        let body = Self {
            bytes: bytes.into(),
            begun: begun.clone(),
        };
        (body, begun)
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.begun.0.store(true, Ordering::SeqCst);
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
