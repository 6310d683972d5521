//! Signatures as the Standard Webhooks specification 1.0.0 describes them.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::{hmac, signature::Ed25519KeyPair};

/// Shorter secrets can be guessed, longer ones add nothing.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

enum Key {
    /// `v1`: both sides have the secret.
    Shared(hmac::Key),
    /// `v1a`: the receiver needs only the public key.
    Private(Box<Ed25519KeyPair>),
}

/// Signs each request with every key, so that receivers may change over at their own pace.
pub struct Signer(Vec<Key>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} keys)", self.0.len())
    }
}

impl Signer {
    /// Reads the keys, separated by blanks or line ends. What is wrong never names them.
    pub fn parse(secrets: &str) -> Result<Self, &'static str> {
        let keys: Result<Vec<_>, _> = secrets.split_whitespace().map(Key::parse).collect();
        match keys? {
            keys if keys.is_empty() => Err("is empty"),
            keys => Ok(Self(keys)),
        }
    }

    /// The headers of a request that is signed.
    pub fn headers(&self, id: &str, timestamp: i64, body: &[u8]) -> HeaderMap {
        let fields = [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", self.sign(id, timestamp, body)),
        ];
        let fields = fields.map(|(name, text)| {
            let value = HeaderValue::from_str(&text);
            let value = value.expect("invariant: an id is printable text");
            (HeaderName::from_static(name), value)
        });
        fields.into_iter().collect()
    }

    /// The value of `webhook-signature`.
    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut content = format!("{id}.{timestamp}.").into_bytes();
        content.extend_from_slice(body);
        let signatures: Vec<String> = self.0.iter().map(|key| key.sign(&content)).collect();
        signatures.join(" ")
    }
}

impl Key {
    /// Errors never contain the secret.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let decode = |encoded: &str| {
            BASE64_STANDARD
                .decode(encoded)
                .map_err(|_| "is not base64 after its prefix")
        };
        if let Some(encoded) = text.strip_prefix("whsec_") {
            let secret = decode(encoded)?;
            if !SECRET_BYTES.contains(&secret.len()) {
                return Err("must be 24 to 64 bytes long once decoded");
            }
            return Ok(Self::Shared(hmac::Key::new(hmac::HMAC_SHA256, &secret)));
        }
        if let Some(encoded) = text.strip_prefix("whsk_") {
            let bytes = decode(encoded)?;
            let pair = match bytes.len() {
                32 => Ed25519KeyPair::from_seed_unchecked(&bytes),
                64 => Ed25519KeyPair::from_seed_and_public_key(&bytes[..32], &bytes[32..]),
                _ => return Err("must be 32 or 64 bytes long once decoded, as ed25519 keys are"),
            };
            let pair = pair.map_err(|_| "is not an ed25519 key with its own public half")?;
            return Ok(Self::Private(Box::new(pair)));
        }
        Err("must start with `whsec_` (shared secret) or `whsk_` (ed25519 key)")
    }

    fn sign(&self, content: &[u8]) -> String {
        match self {
            Self::Shared(key) => {
                format!("v1,{}", BASE64_STANDARD.encode(hmac::sign(key, content)))
            }
            Self::Private(pair) => format!("v1a,{}", BASE64_STANDARD.encode(pair.sign(content))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_known_vector_is_met() {
        let signer = Signer::parse(SECRET).unwrap();
        let signature = signer.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn bad_secrets_are_refused_without_being_named() {
        let short = BASE64_STANDARD.encode([7; 23]);
        let long = BASE64_STANDARD.encode([7; 65]);
        let mixed = BASE64_STANDARD.encode([7; 64]);
        for bad in [
            "",
            "tulip",
            "whsec_",
            "whsec_*",
            &format!("whsec_{short}"),
            &format!("whsec_{long}"),
            &format!("whsk_{short}"),
            &format!("whsk_{mixed}"),
            &format!("{SECRET} tulip"),
        ] {
            let error = Signer::parse(bad).unwrap_err();
            assert!(
                !error.contains("tulip") && !error.contains(&short),
                "{error}"
            );
        }
    }
}
