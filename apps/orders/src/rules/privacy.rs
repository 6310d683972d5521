//! Hashing of keys and masking of foreign text.

use std::fmt;

use consign_kernel::hex;
use jiff::Timestamp;
use ring::hmac;

use crate::{Amount, Client, Side};

mod mask;

pub use mask::{MESSAGE_CHARS_MAX, Masker};

/// Keys in logs: a keyed hash finds the log lines of one order without revealing its key. A bare
/// hash of a guessable key could be reversed.
#[derive(Clone)]
pub struct KeyHash(hmac::Key);

impl KeyHash {
    /// Hashes with this secret (`IDEMPO_SECRET`).
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The hash of a client's key: 64 hexadecimal digits. Equal keys of two clients have different
    /// hashes.
    pub fn of(&self, client: &Client, key: &str) -> String {
        self.hex(&format!("{client}/{key}"))
    }

    /// A key by the usual recipe of producers: the same for the same order within a minute of one
    /// trace. Two intended orders within a minute need different traces.
    pub fn derive_key(
        &self,
        instrument: &str,
        side: Side,
        qty: Amount,
        at: Timestamp,
        trace_id: &str,
    ) -> String {
        let qty = qty.decimal().round_dp(6);
        let minute = at.strftime("%Y-%m-%dT%H:%MZ");
        self.hex(&format!("{instrument}|{side}|{qty:.6}|{minute}|{trace_id}"))
    }

    fn hex(&self, text: &str) -> String {
        hex(hmac::sign(&self.0, text.as_bytes()).as_ref())
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_recipe_gives_the_value_of_the_specification() {
        let recipe = KeyHash::new(b"dev-secret");
        for at in ["2025-08-23T11:00:00Z", "2025-08-23T11:00:59.999Z"] {
            let key = recipe.derive_key(
                "USDJPY",
                Side::Buy,
                "0.1".parse().unwrap(),
                at.parse().unwrap(),
                "trace-abc",
            );
            let vector = "3902197e9856785a1e62ffef2e36f609a4fa3678baf962182f6a9c948b88451d";
            assert_eq!(key, vector, "{at}");
        }
    }

    #[test]
    fn a_hash_depends_on_secret_client_and_key() {
        let client = |name: &str| name.parse::<Client>().unwrap();
        let hash = KeyHash::new(b"one").of(&client("a"), "key-00001");
        assert_eq!(hash.len(), 64);
        assert_eq!(hash, KeyHash::new(b"one").of(&client("a"), "key-00001"));
        for other in [
            KeyHash::new(b"two").of(&client("a"), "key-00001"),
            KeyHash::new(b"one").of(&client("b"), "key-00001"),
            KeyHash::new(b"one").of(&client("a"), "key-00002"),
        ] {
            assert_ne!(hash, other);
        }
        assert_eq!(format!("{:?}", KeyHash::new(b"one")), "KeyHash(***)");
    }
}
