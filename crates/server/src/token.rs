//! Bearer tokens: random secrets of which the server keeps hashes only.

use std::{fmt, str::FromStr};

use consign_kernel::hex;
use consign_redact::Secret;
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

/// Lets people and scanners recognise a leaked token.
const PREFIX: &str = "consign_";

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Enqueue messages.
    Producer,
    /// Claim, renew, begin, settle and release.
    Worker,
    /// Change queues, move messages, redrive, and read.
    Operator,
    /// Read.
    Auditor,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Producer, Self::Worker, Self::Operator, Self::Auditor];

    /// The word used in the configuration and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == word);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            format!("{word:?} is not one of {known}")
        })
    }
}

/// A bearer token in the clear. Shown once, when it is created.
#[derive(Clone, Debug)]
pub struct Token(Secret);

impl Token {
    /// A new one: 256 bits from the operating system.
    pub fn generate() -> Self {
        let mut secret = [0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.expect("invariant: the operating system has randomness");
        Self::new(format!("{PREFIX}{}", hex(&secret)))
    }

    /// A token from a request or a form.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Secret::new(text))
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }

    /// The hash, which is all the server keeps.
    ///
    /// One round of SHA-256 is enough for 256 random bits: there is no dictionary to try.
    pub fn hash(&self) -> TokenHash {
        let digest = digest(&SHA256, self.reveal().as_bytes());
        let bytes = digest.as_ref().try_into();
        TokenHash(bytes.expect("invariant: SHA-256 has 32 bytes"))
    }
}

/// The SHA-256 of a token, written `sha256:<64 hexadecimal digits>`.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compares in constant time.
    pub(crate) fn matches(&self, other: &Self) -> subtle::Choice {
        self.0.ct_eq(&other.0)
    }
}

impl FromStr for TokenHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            "a token's hash is `sha256:` and 64 hexadecimal digits; `consign token new` prints one"
                .to_owned()
        };
        let digits = text.strip_prefix("sha256:").ok_or_else(malformed)?;
        if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| malformed())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| malformed())?;
        }
        let hash = Self(bytes);
        if hash == Token::new("").hash() {
            return Err(
                "this is the hash of the empty token; `consign token new` makes one".into(),
            );
        }
        Ok(hash)
    }
}

impl TryFrom<String> for TokenHash {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_written_and_read_alike_and_tokens_differ() {
        let (one, other) = (Token::generate(), Token::generate());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), PREFIX.len() + 64);
        let written = one.hash().to_string();
        assert_eq!(written.parse::<TokenHash>().unwrap(), one.hash());
        assert!(bool::from(
            one.hash().matches(&Token::new(one.reveal()).hash())
        ));
        assert!(!bool::from(one.hash().matches(&other.hash())));
        assert!(!format!("{one:?}").contains(&one.reveal()[10..]));
    }

    #[test]
    fn the_hash_is_what_sha256sum_prints() {
        let hash = Token::new("abc").hash().to_string();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash, format!("sha256:{expected}"));
    }

    #[test]
    fn malformed_hashes_are_refused() {
        for text in [
            "",
            "sha256:",
            "sha256:zz",
            &"a".repeat(64),
            &format!("sha256:{}", "+1".repeat(32)),
            &Token::new("").hash().to_string(),
        ] {
            assert!(text.parse::<TokenHash>().is_err(), "{text}");
        }
    }
}
