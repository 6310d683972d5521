//! A request body that knows whether it was asked for.

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

/// Whether an order has left our hands. As long as it has not, the broker cannot have it, whatever
/// else went wrong; once it has, it may be executed.
#[derive(Clone, Debug, Default)]
pub(super) struct Left(Arc<AtomicBool>);

impl Left {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// All of an order in one frame.
#[derive(Debug)]
pub(super) struct WatchedBody {
    bytes: Bytes,
    left: Left,
}

impl WatchedBody {
    /// The body, and what tells whether it has left. JSON is never empty, so it is asked for.
    pub(super) fn new(text: String) -> (Self, Left) {
        assert!(!text.is_empty(), "invariant: JSON is never empty");
        let left = Left::default();
        let body = Self {
            bytes: text.into(),
            left: left.clone(),
        };
        (body, left)
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.left.0.store(true, Ordering::SeqCst);
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
