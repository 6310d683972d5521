//! Keys of Standard Webhooks, on the receiver's side.

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::{
    hmac,
    signature::{ED25519, UnparsedPublicKey},
};

/// What is wrong with a key. It never contains the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The list of keys is empty.
    #[error("there is no key")]
    Missing,
    /// Neither a shared secret nor a public key.
    #[error("a key must start with `whsec_` (shared secret) or `whpk_` (public ed25519 key)")]
    Prefix,
    /// What follows the prefix cannot be decoded.
    #[error("a key is not base64 after its prefix")]
    Base64,
    /// A public key of another length.
    #[error("a `whpk_` key is not of 32 bytes")]
    Length,
}

pub(crate) enum Key {
    /// `v1`: both sides have the secret.
    Shared(hmac::Key),
    /// `v1a`: only the sender has the private half.
    Public(UnparsedPublicKey<Vec<u8>>),
}

impl Key {
    pub(crate) fn parse(text: &str) -> Result<Self, KeyError> {
        let decode = |encoded: &str| {
            let decoded = BASE64_STANDARD.decode(encoded);
            decoded.map_err(|_| KeyError::Base64)
        };
        if let Some(encoded) = text.strip_prefix("whsec_") {
            let secret = decode(encoded)?;
            return Ok(Self::Shared(hmac::Key::new(hmac::HMAC_SHA256, &secret)));
        }
        let encoded = text.strip_prefix("whpk_").ok_or(KeyError::Prefix)?;
        let public = decode(encoded)?;
        if public.len() != 32 {
            return Err(KeyError::Length);
        }
        Ok(Self::Public(UnparsedPublicKey::new(&ED25519, public)))
    }

    /// Whether this key made the signature, such as `v1,K5oZ…`. The time it takes does not depend
    /// on where two signatures differ.
    pub(crate) fn made(&self, signature: &str, content: &[u8]) -> bool {
        let Some((version, encoded)) = signature.split_once(',') else {
            return false;
        };
        let Ok(given) = BASE64_STANDARD.decode(encoded) else {
            return false;
        };
        match self {
            Self::Shared(key) => version == "v1" && hmac::verify(key, content, &given).is_ok(),
            Self::Public(key) => version == "v1a" && key.verify(content, &given).is_ok(),
        }
    }
}
