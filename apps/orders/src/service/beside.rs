//! The order of a message, for operators.

use consign_kernel::{Message, Result};

use super::OrderService;
use crate::{Client, ExecResult, LedgerEntry, OrderKey, QUEUE, StoredOrder};

/// A ledger entry with the details of its message.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderView {
    /// The ledger row.
    pub entry: LedgerEntry,
    /// The order's id: the client's or a generated one. `None` where the message is unreadable.
    pub order_id: Option<String>,
    /// Its trace id; `None` likewise.
    pub trace_id: Option<String>,
    /// Its result; `None` while it has none, and where it is unreadable.
    pub result: Option<ExecResult>,
}

/// Client and key of a message's key: a client's name contains no `/`.
fn names(message_key: &str) -> Option<(Client, OrderKey)> {
    let (client, key) = message_key.split_once('/')?;
    Some((client.parse().ok()?, key.parse().ok()?))
}

impl OrderService {
    /// The order of a message. `None`: the message is not of the queue `orders`, or has no ledger
    /// row (any more).
    ///
    /// The row may belong to a newer message: see `outbox_id`.
    pub async fn of_message(&self, message: &Message) -> Result<Option<OrderView>> {
        let names = message.key.as_deref().and_then(names);
        let (true, Some((client, key))) = (message.queue.as_str() == QUEUE, names) else {
            return Ok(None);
        };
        let Some(entry) = self.ledger.entry(&client, &key).await? else {
            return Ok(None);
        };
        let stored = StoredOrder::read(&message.payload).ok();
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
    fn a_message_key_splits_into_client_and_key() {
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
