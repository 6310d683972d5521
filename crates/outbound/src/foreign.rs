//! Arbitrary headers and addresses: no text makes the parsers panic.

use jiff::Timestamp;
use proptest::prelude::*;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};

use crate::{Exceptions, Signer, retry_after};

proptest! {
    #[test]
    fn a_wait_is_read_or_not_at_all(text in prop_oneof![
        any::<String>(),
        "-?[0-9]{1,25}",
        "(Mon|Tue|Xxx), [0-9]{1,2} (Nov|Feb) [0-9]{1,5} [0-9]{2}:[0-9]{2}:[0-9]{2} (GMT|\\+0100)",
    ]) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.insert(RETRY_AFTER, value);
        }
        retry_after(&headers, Timestamp::UNIX_EPOCH);
    }

    /// An exception is for what it names and for nothing else that is inside.
    #[test]
    fn an_exception_is_read_or_refused(text in prop_oneof![
        any::<String>(),
        "[0-9a-f:./\\[\\]]{0,24}",
        "[a-zA-Z0-9._-]{0,20}",
    ]) {
        let Ok(allowed) = Exceptions::parse(std::slice::from_ref(&text)) else { return Ok(()) };
        for host in [text.as_str(), "127.0.0.1", "[::1]", ""] {
            allowed.names(host);
        }
        if text.bytes().any(|byte| byte.is_ascii_alphabetic()) && !text.contains([':', '/']) {
            prop_assert!(!allowed.names("127.0.0.1"), "{text}");
        }
    }

    #[test]
    fn a_signing_secret_is_read_or_refused(text in prop_oneof![any::<String>(), "whs(ec|k)_[A-Za-z0-9+/=]{0,60}"]) {
        drop(Signer::parse(&text));
    }
}
