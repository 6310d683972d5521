//! What the ledger keeps beside a message, for people who look after orders.

use consign_kernel::{Message, Result};

use super::OrderService;
use crate::{Client, ExecResult, LedgerEntry, OrderKey, QUEUE, Stored};

/// An order as the ledger knows it, with what is known of it besides.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderView {
    /// Its row.
    pub entry: LedgerEntry,
    /// Its name: the client's, or the one it was given. None where the message cannot be read.
    pub order_id: Option<String>,
    /// By what it is found in traces; none likewise.
    pub trace_id: Option<String>,
    /// What came of it; none before that, and where it cannot be read.
    pub result: Option<ExecResult>,
}

/// Whose key the key of a message is: the client's name has no `/` in it.
fn names(message_key: &str) -> Option<(Client, OrderKey)> {
    let (client, key) = message_key.split_once('/')?;
    Some((client.parse().ok()?, key.parse().ok()?))
}

impl OrderService {
    /// The order of a message. None: it is none of the queue `orders`, or the ledger does not know it
    /// (any more).
    ///
    /// The row may have gone to another message since: see `outbox_id`.
    pub async fn of_message(&self, message: &Message) -> Result<Option<OrderView>> {
        let names = message.key.as_deref().and_then(names);
        let (true, Some((client, key))) = (message.queue.as_str() == QUEUE, names) else {
            return Ok(None);
        };
        let Some(entry) = self.ledger.entry(&client, &key).await? else {
            return Ok(None);
        };
        let stored = Stored::read(&message.payload).ok();
        let filled = stored.map(|stored| stored.filled);
        let (order_id, trace_id) = filled
            .map(|filled| (filled.order_id, filled.trace_id))
            .unzip();
        let result = entry.response.as_deref();
        Ok(Some(OrderView {
            order_id,
            trace_id,
            result: result.and_then(|text| serde_json::from_str(text).ok()),
            entry,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_message_tells_client_and_key() {
        let (client, key) = names("desk-7/a/b/order-1").unwrap();
        assert_eq!((client.as_str(), key.as_str()), ("desk-7", "a/b/order-1"));
        for none in [
            "order-0001",
            "/order-0001",
            "desk-7/short",
            "desk\u{7}/order-0001",
        ] {
            assert_eq!(names(none), None, "{none:?}");
        }
    }
}
