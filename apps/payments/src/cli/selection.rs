//! Payment references on the command line.

use std::{fmt, str::FromStr};

use consign_app::failure::{Exit, Failure};
use consign_kernel::{MessageId, Store};

use crate::{OutboxId, QUEUE};

/// A reference to a payment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PaymentRef {
    Payment(OutboxId),
    /// Id of its message.
    Message(MessageId),
}

impl FromStr for PaymentRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Message(MessageId(id)));
        }
        let help = "a payment is named by its outbox_id, a UUID, or by the id of its message";
        text.parse().map(Self::Payment).map_err(|_| help.to_owned())
    }
}

impl fmt::Display for PaymentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Payment(id) => id.fmt(f),
            Self::Message(id) => id.fmt(f),
        }
    }
}

impl PaymentRef {
    /// Its outbox_id; `None` if the message does not exist or is not a payment.
    pub(super) async fn find(self, store: &dyn Store) -> Result<Option<OutboxId>, Failure> {
        match self {
            Self::Payment(id) => Ok(Some(id)),
            Self::Message(id) => {
                let found = store.explain(id).await?;
                let message = found.map(|found| found.message);
                let message = message.filter(|message| message.queue.as_str() == QUEUE);
                // The key of its message is its outbox_id.
                Ok(message.and_then(|message| message.key?.parse().ok()))
            }
        }
    }

    pub(super) fn missing(self) -> Failure {
        let message =
            format!("payment {self} does not exist; `consign payments ls` lists payments");
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
            assert_eq!(text.parse::<PaymentRef>().unwrap().to_string(), text);
        }
        for bad in ["", "7x", "key-1"] {
            assert!(bad.parse::<PaymentRef>().is_err(), "{bad}");
        }
    }
}
