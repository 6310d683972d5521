//! Reading a request's body: up to a size, within a time, and within the memory set aside for
//! bodies.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, header},
};
use http_body_util::BodyExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use super::budget::{Budget, Reservation, overloaded};
use crate::problem::{Problem, codes};

/// A body up to this size needs no share of the memory: the number of connections bounds those.
/// What comes later in pieces takes its share in pieces of this size.
const SMALL_BYTES: usize = 64 * 1024;
/// How long the next [`SMALL_BYTES`] of a large body may take before it releases what it has
/// reserved for bytes still to come.
const QUICK_WITHIN: Duration = Duration::from_millis(250);
/// How long a large body waits for memory. A client that is refused sends all of it again, which
/// costs more than to let it wait.
const MEMORY_WITHIN: Duration = Duration::from_secs(2);
/// How long a large body may make no progress, and take for the next [`SMALL_BYTES`]: it keeps others
/// from being read.
const STALL_MAX: Duration = Duration::from_secs(5);
/// How long a large request waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// Large requests worked on at once, at least.
const TURNS_MIN: usize = 2;

/// The memory and the processors set aside for large bodies.
#[derive(Debug)]
pub(crate) struct Bodies {
    memory: Arc<Budget>,
    turns: Arc<Semaphore>,
}

/// What a request has of both; released when dropped. Small bodies need none.
#[derive(Debug, Default)]
pub(crate) struct Share {
    memory: Option<Reservation>,
    turn: Option<OwnedSemaphorePermit>,
}

/// A whole body with its share.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub(crate) bytes: Bytes,
    pub(crate) share: Share,
}

impl Bodies {
    /// `bytes_max` for all bodies at once; the largest body always fits.
    pub(crate) fn new(bytes_max: usize, body_bytes_max: usize) -> Self {
        // Half the processors are left to everything else.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory: Budget::new(
                ("bodies_max_bytes", bytes_max),
                body_bytes_max,
                MEMORY_WITHIN,
            ),
            turns: Arc::new(Semaphore::new((processors / 2).max(TURNS_MIN))),
        }
    }

    /// The whole body of a client's request.
    pub(crate) async fn read(
        &self,
        client: &str,
        body: Body,
        (bytes_max, limit): (usize, Duration),
    ) -> Result<WholeBody, Problem> {
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        // A declared length that is too large is rejected at once.
        if declared > bytes_max {
            return Err(too_large(bytes_max));
        }
        let reading = BodyReader {
            memory: &self.memory,
            client,
            body,
            declared,
            bytes_max,
            bytes: Vec::with_capacity(declared.min(SMALL_BYTES)),
            share: Share::default(),
            is_slow: false,
            since: Instant::now(),
            had: 0,
        };
        let reading = timeout(limit, reading.finish(limit)).await;
        reading.unwrap_or_else(|_| Err(too_slow(limit)))
    }

    /// Waits until a request may be worked on: at once, if its body is small.
    pub(crate) async fn turn(&self, share: &mut Share) -> Result<(), Problem> {
        if !share.is_large() {
            return Ok(());
        }
        let turn = timeout(TURN_WITHIN, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn.map_err(|_| {
            overloaded("too many large requests are waiting; nothing was done".to_owned())
        })?;
        share.turn = Some(turn.expect("invariant: the semaphore is never closed"));
        Ok(())
    }
}

impl Share {
    /// Whether the body is large: parsing it would block other requests of its thread for too long.
    pub(crate) fn is_large(&self) -> bool {
        self.memory.is_some()
    }
}

/// A body of which a part has come.
///
/// Beyond [`SMALL_BYTES`] it reserves all that was declared, so that bodies which come at once are
/// read one after the other instead of all by halves. A slow one keeps no more than it has sent.
struct BodyReader<'a> {
    memory: &'a Arc<Budget>,
    client: &'a str,
    body: Body,
    declared: usize,
    bytes_max: usize,
    bytes: Vec<u8>,
    share: Share,
    is_slow: bool,
    /// When the current [`SMALL_BYTES`] began, and after how many bytes.
    since: Instant,
    had: usize,
}

impl BodyReader<'_> {
    async fn finish(mut self, limit: Duration) -> Result<WholeBody, Problem> {
        loop {
            let patience = match (self.share.is_large(), self.is_slow) {
                (false, _) => limit,
                (true, false) => QUICK_WITHIN,
                (true, true) => STALL_MAX,
            };
            // A frame that was waited for in vain is not lost: the next wait gets it.
            let frame = match timeout(patience, self.body.frame()).await {
                Ok(frame) => frame,
                Err(_) if self.is_slow => return Err(too_slow(STALL_MAX)),
                Err(_) => {
                    self.slow_down();
                    continue;
                }
            };
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.add(&data).await?;
                    }
                }
                None => {
                    let (bytes, share) = (self.bytes.into(), self.share);
                    return Ok(WholeBody { bytes, share });
                }
                Some(Err(error)) => {
                    let detail = format!(
                        "connection closed after {} bytes of the body: {error}",
                        self.bytes.len()
                    );
                    return Err(Problem::new(codes::BAD_JSON, detail));
                }
            }
        }
    }

    async fn add(&mut self, data: &[u8]) -> Result<(), Problem> {
        let needed = self.bytes.len() + data.len();
        if needed > self.bytes_max {
            return Err(too_large(self.bytes_max));
        }
        self.reserve(needed).await?;
        self.bytes.extend_from_slice(data);
        let took = self.since.elapsed();
        if needed - self.had >= SMALL_BYTES {
            (self.since, self.had) = (Instant::now(), needed);
        } else if self.share.is_large() && took > STALL_MAX {
            return Err(too_slow(STALL_MAX));
        } else if self.share.is_large() && took > QUICK_WITHIN {
            self.slow_down();
        }
        Ok(())
    }

    /// Memory for so many bytes, and for those that will come soon.
    async fn reserve(&mut self, needed: usize) -> Result<(), Problem> {
        let held = self.share.memory.as_ref().map_or(0, Reservation::bytes);
        if needed <= SMALL_BYTES || needed <= held {
            return Ok(());
        }
        let expected = if self.is_slow || self.declared == 0 {
            needed.next_multiple_of(SMALL_BYTES).min(self.bytes_max)
        } else {
            self.declared
        };
        let memory = &mut self.share.memory;
        let memory = memory.get_or_insert_with(|| self.memory.empty(self.client));
        memory.grow(expected.max(needed)).await?;
        // The wait was for others.
        self.since = Instant::now();
        Ok(())
    }

    fn slow_down(&mut self) {
        self.is_slow = true;
        let kept = self.bytes.len().next_multiple_of(SMALL_BYTES);
        if let Some(memory) = &mut self.share.memory {
            memory.shrink(kept);
        }
    }
}

/// Rejects a compressed body: nothing here expands one, and it is not of the declared type.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    match codings.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        None => Ok(()),
        Some(coding) => {
            let detail =
                format!("Content-Encoding {coding:?} is not supported; send the body uncompressed");
            Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE, detail)
                .with_header(header::ACCEPT_ENCODING, "identity"))
        }
    }
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("body exceeds the maximum of {bytes_max} bytes");
    Problem::new(codes::BODY_TOO_LARGE, detail).with("bytes_max", bytes_max)
}

fn too_slow(limit: Duration) -> Problem {
    let detail = format!("the body did not arrive within {} ms", limit.as_millis());
    Problem::new(codes::BODY_TIMEOUT, detail)
}
