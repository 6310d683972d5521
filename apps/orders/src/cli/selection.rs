//! Order references on the command line.

use std::{fmt, str::FromStr};

use consign_app::failure::{Exit, Failure};
use consign_kernel::{MessageId, Store};

use crate::{Client, Ledger, LedgerEntry, OrderKey, QUEUE};

/// A reference to an order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OrderRef {
    /// Client and key.
    Key(Client, OrderKey),
    /// Id of its message.
    Id(MessageId),
}

impl FromStr for OrderRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((client, key)) = text.split_once('/') else {
            let help = "an order is named CLIENT/KEY, as in local/order-0001, or by its outbox id";
            return text
                .parse()
                .map(|id| Self::Id(MessageId(id)))
                .map_err(|_| help.to_owned());
        };
        let text_of = |error: consign_kernel::Error| error.to_string();
        Ok(Self::Key(
            client.parse().map_err(text_of)?,
            key.parse().map_err(text_of)?,
        ))
    }
}

impl fmt::Display for OrderRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(client, key) => write!(f, "{client}/{}", key.as_str()),
            Self::Id(id) => write!(f, "{id}"),
        }
    }
}

impl OrderRef {
    /// Its ledger entry.
    pub(super) async fn find(
        &self,
        store: &dyn Store,
        ledger: &dyn Ledger,
    ) -> Result<Option<LedgerEntry>, Failure> {
        match self {
            Self::Key(client, key) => Ok(ledger.entry(client, key).await?),
            Self::Id(id) => {
                let Some(explanation) = store.explain(*id).await? else {
                    return Ok(None);
                };
                let message = explanation.message;
                let key = message.key.filter(|_| message.queue.as_str() == QUEUE);
                let Some(Self::Key(client, key)) = key.and_then(|key| key.parse().ok()) else {
                    return Ok(None);
                };
                let entry = ledger.entry(&client, &key).await?;
                // The key may have expired and been used again.
                Ok(entry.filter(|entry| entry.outbox_id == Some(*id)))
            }
        }
    }

    pub(super) fn missing(&self) -> Failure {
        let message = format!("order {self} does not exist; `consign orders ls` lists orders");
        Failure::new(Exit::NotFound, "no_such_order", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_named_by_its_key_or_by_its_message() {
        let check = |text: &str| text.parse::<OrderRef>().map(|which| which.to_string());
        assert_eq!(check("7"), Ok("7".to_owned()));
        assert_eq!(check("local/order-01"), Ok("local/order-01".to_owned()));
        let Ok(OrderRef::Key(client, key)) = "shop/a/b/c/d/e".parse() else {
            panic!("a key may contain slashes");
        };
        assert_eq!((client.as_str(), key.as_str()), ("shop", "a/b/c/d/e"));
        for bad in ["", "order-01", "/order-01", "local/short", "7x"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
