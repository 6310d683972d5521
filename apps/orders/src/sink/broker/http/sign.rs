//! Request signatures, for brokers that require them.

use std::fmt;

use consign_kernel::hex;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderValue},
};
use ring::hmac;

/// Milliseconds since 1970.
pub(super) const TIMESTAMP: &str = "x-timestamp";
/// A unique value per request.
pub(super) const NONCE: &str = "x-nonce";
/// The signature in hexadecimal.
pub(super) const SIGNATURE: &str = "x-signature";

/// Signs requests with HMAC-SHA256 over `METHOD|path|query|canonical body|timestamp|nonce`.
pub(super) struct Signer(hmac::Key);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    pub(super) fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// Adds the headers that the broker verifies. `body` is canonical already, as it is sent.
    pub(super) fn sign(
        &self,
        method: &str,
        url: &Url,
        body: &str,
        (timestamp_ms, nonce): (i64, &str),
        headers: &mut HeaderMap,
    ) {
        let signature = self.signature(method, url, body, (timestamp_ms, nonce));
        headers.insert(TIMESTAMP, timestamp_ms.into());
        for (name, text) in [(NONCE, nonce), (SIGNATURE, &signature)] {
            let value = HeaderValue::from_str(text).expect("invariant: plain text");
            headers.insert(name, value);
        }
    }

    fn signature(&self, method: &str, url: &Url, body: &str, at: (i64, &str)) -> String {
        let (path, query) = (url.path(), url.query().unwrap_or_default());
        let (timestamp_ms, nonce) = at;
        let base = format!("{method}|{path}|{query}|{body}|{timestamp_ms}|{nonce}");
        hex(hmac::sign(&self.0, base.as_bytes()).as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The base string. The value was computed with OpenSSL.
    #[test]
    fn signs_the_base_string() {
        let signer = Signer::new("dev-secret");
        let url: Url = "https://broker.example/v2/orders?venue=a".parse().unwrap();
        let body = r#"{"instrument":"USDJPY","qty":10000,"side":"BUY"}"#;
        let signature = signer.signature("POST", &url, body, (1_756_000_000_000, "n-1"));
        assert_eq!(
            signature,
            "bc2dd6cad876a9482c9cff07515eb60778fb13622e0f0f695beb9fc6de86e8aa"
        );
        for (method, at) in [
            ("GET", (1_756_000_000_000, "n-1")),
            ("POST", (1, "n-1")),
            ("POST", (1_756_000_000_000, "n-2")),
        ] {
            assert_ne!(signer.signature(method, &url, body, at), signature);
        }
    }
}
