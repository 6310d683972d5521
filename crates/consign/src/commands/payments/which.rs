//! Naming payments on the command line.

use std::{fmt, str::FromStr};

use consign_kernel::{MessageId, Store};
use consign_payments::{OutboxId, QUEUE};

use crate::failure::{Exit, Failure};

/// A payment as people name it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Which {
    Payment(OutboxId),
    /// By its message.
    Message(MessageId),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Message(MessageId(id)));
        }
        let help = "a payment is named by its outbox_id, a UUID, or by the id of its message";
        text.parse().map(Self::Payment).map_err(|_| help.to_owned())
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payment(id) => id.fmt(f),
            Self::Message(id) => id.fmt(f),
        }
    }
}

impl Which {
    /// Its outbox_id; none if there is no such message, or if it is no payment.
    pub(super) async fn find(self, store: &dyn Store) -> Result<Option<OutboxId>, Failure> {
        match self {
            Self::Payment(id) => Ok(Some(id)),
            Self::Message(id) => {
                let found = store.explain(id).await?;
                let message = found.map(|found| found.message);
                let message = message.filter(|message| message.queue.as_str() == QUEUE);
                // The key of its message is its name.
                Ok(message.and_then(|message| message.key?.parse().ok()))
            }
        }
    }

    pub(super) fn missing(self) -> Failure {
        let message =
            format!("there is no payment {self}; `consign payments ls` lists those there are");
        Failure::new(Exit::NotFound, "no_such_payment", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_is_named_by_its_outbox_id_or_by_its_message() {
        let id = "0190f3a2-7b1c-7000-8000-000000000001";
        for text in ["7", id] {
            assert_eq!(text.parse::<Which>().unwrap().to_string(), text);
        }
        for bad in ["", "7x", "key-1"] {
            assert!(bad.parse::<Which>().is_err(), "{bad}");
        }
    }
}
