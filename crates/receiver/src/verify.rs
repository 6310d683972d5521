//! Signatures and their time.

use std::fmt;

use crate::key::{Key, KeyError};

/// How far the sender's clock may differ, in seconds, unless set otherwise.
pub const TOLERANCE_SECONDS: u64 = 300;

/// Verifies signatures as the Standard Webhooks specification 1.0.0 describes them.
pub struct Verifier {
    keys: Vec<Key>,
    tolerance_seconds: u64,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} keys)", self.keys.len())
    }
}

/// A request whose signature is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The same for every attempt at a message.
    pub id: String,
    /// When it was signed, in seconds since 1970.
    pub timestamp: u64,
    /// The message's id, if the sender is consign.
    pub message_id: Option<i64>,
    /// The number of the attempt, if the sender is consign.
    pub attempt_no: Option<u32>,
    /// Grows with every lease, if the sender is consign.
    pub fence: Option<i64>,
}

/// Why a request is not what a holder of the key sent just now. Answer 401.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// One of the three headers is missing or empty.
    #[error("the header {0} is missing")]
    HeaderMissing(&'static str),
    /// The header `webhook-timestamp` is not a number of seconds.
    #[error("webhook-timestamp {0:?} is no number")]
    TimestampInvalid(String),
    /// No signature fits a key.
    #[error("no signature was made with a known key")]
    SignatureInvalid,
    /// Signed too long ago, or in the future: perhaps a recorded request that is sent again.
    #[error("signed at {timestamp}, more than {tolerance_seconds} seconds from now")]
    TimestampOutOfTolerance {
        /// When it was signed.
        timestamp: u64,
        /// What the verifier allows.
        tolerance_seconds: u64,
    },
}

impl Rejection {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::HeaderMissing(_) => "header_missing",
            Self::TimestampInvalid(_) => "timestamp_invalid",
            Self::SignatureInvalid => "signature_invalid",
            Self::TimestampOutOfTolerance { .. } => "timestamp_out_of_tolerance",
        }
    }
}

impl Verifier {
    /// With keys `whsec_…` and `whpk_…`, separated by blanks: several allow a rotation.
    pub fn new(keys: &str) -> Result<Self, KeyError> {
        let keys: Result<Vec<_>, _> = keys.split_whitespace().map(Key::parse).collect();
        let keys = keys?;
        if keys.is_empty() {
            return Err(KeyError::Missing);
        }
        let tolerance_seconds = TOLERANCE_SECONDS;
        Ok(Self {
            keys,
            tolerance_seconds,
        })
    }

    /// With another tolerance.
    #[must_use]
    pub fn tolerating(self, tolerance_seconds: u64) -> Self {
        Self {
            tolerance_seconds,
            ..self
        }
    }

    /// Verifies a request: its headers by lower-case name, its body as it came in, and the time in
    /// seconds since 1970.
    pub fn verify<'h>(
        &self,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
        now: u64,
    ) -> Result<Webhook, Rejection> {
        let required = |name| {
            let value = header(name).filter(|value| !value.is_empty());
            value.ok_or(Rejection::HeaderMissing(name))
        };
        let id = required("webhook-id")?;
        let stamp = required("webhook-timestamp")?;
        let signatures = required("webhook-signature")?;
        let timestamp: u64 = Some(stamp)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Rejection::TimestampInvalid(stamp.to_owned()))?;
        let content = [format!("{id}.{stamp}.").as_bytes(), body].concat();
        let is_signed = signatures
            .split(' ')
            .any(|signature| self.keys.iter().any(|key| key.made(signature, &content)));
        if !is_signed {
            return Err(Rejection::SignatureInvalid);
        }
        let tolerance_seconds = self.tolerance_seconds;
        if now.abs_diff(timestamp) > tolerance_seconds {
            return Err(Rejection::TimestampOutOfTolerance {
                timestamp,
                tolerance_seconds,
            });
        }
        Ok(Webhook {
            id: id.to_owned(),
            timestamp,
            message_id: header("consign-message-id").and_then(|text| text.parse().ok()),
            attempt_no: header("consign-attempt").and_then(|text| text.parse().ok()),
            fence: header("consign-fence").and_then(|text| text.parse().ok()),
        })
    }
}
