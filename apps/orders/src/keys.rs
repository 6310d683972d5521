//! Hashed keys for logs and spans.

use std::sync::OnceLock;

use consign_kernel::Message;
use ring::rand::{SecureRandom, SystemRandom};

use crate::{Client, KeyHash, OrderKey, OrdersOptions};

/// Hashes keys with the configured secret, or with one of this process alone: then hashes can be
/// compared within one process only.
#[derive(Clone, Debug)]
pub(crate) struct Keys(KeyHash);

impl Keys {
    pub(crate) fn new(options: &OrdersOptions) -> Self {
        static OWN: OnceLock<[u8; 32]> = OnceLock::new();
        let own = || {
            OWN.get_or_init(|| {
                let mut secret = [0; 32];
                let filled = SystemRandom::new().fill(&mut secret);
                filled.expect("invariant: the system has randomness");
                secret
            })
        };
        match &options.idempo_secret {
            Some(secret) if !secret.is_empty() => Self(KeyHash::new(secret.reveal().as_bytes())),
            _ => Self(KeyHash::new(own())),
        }
    }

    pub(crate) fn hash(&self, client: &Client, key: &OrderKey) -> String {
        self.0.of(client, key.as_str())
    }

    /// The hash of a message's key, which is `client/key`.
    pub(crate) fn of_message(&self, message: &Message) -> String {
        let text = message.key.as_deref().unwrap_or_default();
        let (client, key) = text.split_once('/').unwrap_or((Client::LOCAL, text));
        let local = || Client::LOCAL.parse().expect("invariant: a client's name");
        let client: Client = client.parse().unwrap_or_else(|_| local());
        self.0.of(&client, key)
    }
}
