//! Correlation ids: they link the answer to a request, its audit and its log lines.

use std::fmt;

use consign_kernel::MessageId;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

const PREFIX: &str = "corr-";
const DIGITS: usize = 16;

/// The id of a request: `corr-` and 16 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Correlation(String);

impl Correlation {
    /// A new one. Every request gets its own.
    #[expect(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Self {
        Self::of_bytes(random())
    }

    /// The one that all outcomes of a lease share.
    pub fn of_fence(fence: i64) -> Self {
        Self::of_bytes(fence.to_be_bytes())
    }

    /// Parses one; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(PREFIX)?;
        let is_hex = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| Self(text.to_owned()))
    }

    /// Parses one; a malformed one is replaced by a new one.
    pub fn parse_or_new(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(Self::new)
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn of_bytes(bytes: [u8; 8]) -> Self {
        Self(format!("{PREFIX}{:016x}", u64::from_be_bytes(bytes)))
    }
}

impl fmt::Display for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Correlation> for String {
    fn from(correlation: Correlation) -> Self {
        correlation.0
    }
}

impl TryFrom<String> for Correlation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("not a correlation id: {text:?}"))
    }
}

/// A generated name for a worker.
pub fn worker_id() -> String {
    let [a, b, c, d, ..] = random();
    format!("worker-{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// The id of an attempt: of its message the last 8 hex digits, of its number the last 4.
pub fn attempt_id(outbox_id: MessageId, attempt_no: u32) -> String {
    let message = outbox_id.0 & 0xffff_ffff;
    format!("attempt-{message:08x}{:04x}", attempt_no & 0xffff)
}

fn random() -> [u8; 8] {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("invariant: the system has randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correlation_id_has_sixteen_hex_digits() {
        for valid in ["corr-a1b2c3d4e5f67890", "corr-A1B2C3D4E5F67890"] {
            assert_eq!(Correlation::parse(valid).unwrap().as_str(), valid);
            assert_eq!(Correlation::parse_or_new(valid).as_str(), valid);
        }
        let malformed = [
            "corr-test",
            "corr-abc123def456",
            "corr-a1b2c3d4e5f678901",
            // The reference takes a line break at the end; a header must not.
            "corr-a1b2c3d4e5f67890\n",
            "CORR-a1b2c3d4e5f67890",
            "a1b2c3d4e5f67890",
            "",
        ];
        for text in malformed {
            assert_eq!(Correlation::parse(text), None, "{text:?}");
            let replaced = Correlation::parse_or_new(text);
            assert!(Correlation::parse(replaced.as_str()).is_some());
        }
    }

    #[test]
    fn fresh_ones_differ_and_those_of_a_lease_do_not() {
        let (one, other) = (Correlation::new(), Correlation::new());
        assert_ne!(one, other);
        assert_eq!(one.as_str().len(), 21);
        assert_eq!(one.as_str(), one.as_str().to_lowercase());
        assert_eq!(Correlation::of_fence(255).as_str(), "corr-00000000000000ff");
        let read: Correlation = serde_json::from_str("\"corr-00000000000000ff\"").unwrap();
        assert_eq!(read, Correlation::of_fence(255));
        assert!(serde_json::from_str::<Correlation>("\"corr-1\"").is_err());
    }

    #[test]
    fn attempts_and_workers_have_names() {
        assert_eq!(attempt_id(MessageId(7), 1), "attempt-000000070001");
        let large = attempt_id(MessageId(0x1_2345_6789), 0x1_0002);
        assert_eq!(large, "attempt-234567890002");
        assert_eq!(worker_id().len(), "worker-".len() + 8);
        assert_ne!(worker_id(), worker_id());
    }
}
