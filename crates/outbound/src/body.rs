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

/// Whether a request's body has left our hands.
///
/// As long as it has not, the far side cannot have the message, whatever else went wrong. Once it
/// has, it may be anywhere between our buffers and the far side's database.
#[derive(Clone, Debug, Default)]
pub struct Begun(Arc<AtomicBool>);

impl Begun {
    /// Whether it has.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// All of a payload in one frame.
#[derive(Debug)]
pub struct WatchedBody {
    bytes: Bytes,
    begun: Begun,
}

impl WatchedBody {
    /// The body, and what tells whether it has left. An empty body is never asked for, so there is
    /// none: JSON has at least one byte.
    pub fn new(bytes: Vec<u8>) -> (Self, Begun) {
        assert!(!bytes.is_empty(), "invariant: JSON is never empty");
        let begun = Begun::default();
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
