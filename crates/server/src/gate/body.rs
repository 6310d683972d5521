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

use crate::problem::{Problem, codes};

/// A body up to this size needs no share of the memory: the number of connections bounds those.
const SMALL_BYTES: usize = 64 * 1024;
/// How long a large body waits for its share.
const SHARE_WITHIN: Duration = Duration::from_secs(1);
/// How long a large body may make no progress, and take for the next [`SMALL_BYTES`]: it keeps others
/// from being read.
const STALL_MAX: Duration = Duration::from_secs(5);
/// How long a large request waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);
/// Large requests worked on at once, at least.
const TURNS_MIN: usize = 2;

/// The memory and the processors set aside for large bodies.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
    bytes_max: usize,
    turns: Arc<Semaphore>,
}

/// A part of the budget; given back when dropped. Small bodies need none.
#[derive(Debug, Default)]
pub(crate) struct Share {
    bytes: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

/// A whole body with its share.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) share: Share,
}

impl Budget {
    /// `bytes_max` for all bodies at once; the largest body always fits.
    pub(crate) fn new(bytes_max: usize, body_bytes_max: usize) -> Self {
        let bytes_max = bytes_max.max(body_bytes_max);
        let bytes_max = bytes_max.min(u32::MAX as usize);
        // Half the processors are left to everything else.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            bytes: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
            turns: Arc::new(Semaphore::new((processors / 2).max(TURNS_MIN))),
        }
    }

    /// Makes a share large enough for so many bytes.
    async fn grow(&self, share: &mut Share, bytes: usize) -> Result<(), Problem> {
        let held = share.bytes.as_ref().map_or(0, |held| held.num_permits());
        if bytes <= SMALL_BYTES || bytes <= held {
            return Ok(());
        }
        let more = u32::try_from(bytes - held).unwrap_or(u32::MAX);
        let more = Arc::clone(&self.bytes).acquire_many_owned(more);
        let more = timeout(SHARE_WITHIN, more).await.map_err(|_| {
            let detail = format!(
                "the bodies of other requests take the {} bytes of server.bodies_max_bytes; \
                 nothing was done",
                self.bytes_max
            );
            overloaded(detail)
        })?;
        let more = more.expect("invariant: the semaphore is never closed");
        match &mut share.bytes {
            Some(held) => held.merge(more),
            None => share.bytes = Some(more),
        }
        Ok(())
    }

    /// Waits until a request may be worked on: at once, if its body is small.
    pub(crate) async fn turn(&self, share: &mut Share) -> Result<(), Problem> {
        if share.bytes.is_none() {
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
    /// Whether the body is large: reading it takes a thread longer than others shall wait for it.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes.is_some()
    }
}

fn overloaded(detail: String) -> Problem {
    Problem::new(codes::OVERLOADED, detail)
        .with("outcome", "not_done")
        .retry_after(Duration::from_secs(1))
}

/// Refuses a compressed body: nothing here expands one, and as it stands it is not what its type says.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    match codings.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        None => Ok(()),
        Some(coding) => {
            let detail =
                format!("Content-Encoding {coding:?} is not supported; send the body as it is");
            Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE, detail)
                .with_header(header::ACCEPT_ENCODING, "identity"))
        }
    }
}

/// The whole body.
pub(crate) async fn read(
    body: Body,
    bytes_max: usize,
    limit: Duration,
    budget: &Budget,
) -> Result<Received, Problem> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    // A client that says how much it will send is told at once.
    if declared > bytes_max {
        return Err(too_large(bytes_max));
    }
    let mut share = Share::default();
    budget.grow(&mut share, declared).await?;
    let reading = collect(body, (declared, bytes_max), &mut share, budget);
    let bytes = timeout(limit, reading)
        .await
        .unwrap_or_else(|_| Err(too_slow(limit)))?;
    Ok(Received { bytes, share })
}

async fn collect(
    mut body: Body,
    (declared, bytes_max): (usize, usize),
    share: &mut Share,
    budget: &Budget,
) -> Result<Bytes, Problem> {
    let mut bytes = Vec::with_capacity(declared);
    let (mut since, mut had) = (Instant::now(), 0);
    loop {
        let frame = if share.is_large() {
            timeout(STALL_MAX, body.frame()).await
        } else {
            Ok(body.frame().await)
        };
        let frame = match frame.map_err(|_| too_slow(STALL_MAX))? {
            None => return Ok(bytes.into()),
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let detail = format!("the body broke off: {error}");
                return Err(Problem::new(codes::BAD_JSON, detail));
            }
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        budget.grow(share, bytes.len() + data.len()).await?;
        bytes.extend_from_slice(&data);
        if bytes.len() - had >= SMALL_BYTES {
            (since, had) = (Instant::now(), bytes.len());
        } else if share.is_large() && since.elapsed() > STALL_MAX {
            return Err(too_slow(STALL_MAX));
        }
    }
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("a request's body may have {bytes_max} bytes");
    Problem::new(codes::BODY_TOO_LARGE, detail).with("bytes_max", bytes_max)
}

fn too_slow(limit: Duration) -> Problem {
    let detail = format!("the body did not arrive within {} ms", limit.as_millis());
    Problem::new(codes::BODY_TIMEOUT, detail)
}
