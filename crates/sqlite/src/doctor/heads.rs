//! Group heads: in an ordered group, only the head is ready or leased.

use std::collections::BTreeMap;

use consign_kernel::MessageId;
use sqlx::SqliteConnection;

use super::{Report, states::Suspect};
use crate::{error::Result, queues, rows::queue_name, sql};

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    messages: &[Suspect],
    report: &mut Report,
) -> Result<()> {
    let heads: Vec<(String, String, i64, bool, bool)> = sqlx::query_as(sql!("doctor_heads"))
        .fetch_all(&mut *connection)
        .await?;
    let unfinished: BTreeMap<i64, &Suspect> = messages.iter().map(|m| (m.id.0, m)).collect();
    let mut holders: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (queue, group, id, is_member, others_wait) in &heads {
        holders.insert((queue, group), *id);
        if !is_member || !unfinished.contains_key(id) {
            let stuck = if *others_wait {
                ", and other messages wait for it"
            } else {
                ""
            };
            report.add(
                "group_head",
                format!(
                    "group {group:?} of queue {queue} has message {id} as its head, which is \
                         delivered, discarded, dead without blocking, or not of this group{stuck}"
                ),
                format!(
                    "make the first that waits the head, or delete it: DELETE FROM group_head \
                         WHERE queue = '{queue}' AND message_id = {id}"
                ),
                Some(MessageId(*id)),
            );
        }
    }
    check_active(connection, messages, &holders, report).await?;
    check_waiting(connection, report).await
}

/// A message that is ready or leased in an ordered queue must be the head of its group.
async fn check_active(
    connection: &mut SqliteConnection,
    messages: &[Suspect],
    holders: &BTreeMap<(&str, &str), i64>,
    report: &mut Report,
) -> Result<()> {
    let mut ordered: BTreeMap<&str, bool> = BTreeMap::new();
    for message in messages.iter().filter(|message| message.is_active) {
        let Some(group) = &message.group else {
            continue;
        };
        let queue = message.queue.as_str();
        if !ordered.contains_key(queue) {
            let found = queues::queue(connection, &queue_name(queue)?).await?;
            ordered.insert(queue, found.is_some_and(|queue| queue.policy.ordered));
        }
        let holder = holders.get(&(queue, group.as_str())).copied();
        if ordered[queue] && holder != Some(message.id.0) {
            let id = message.id;
            report.add(
                "group_head",
                format!("message {id} is not the head of group {group:?} of queue {queue}"),
                format!(
                    "run `consign hold {id}`, and `consign unhold {id}` once the group is \
                         empty"
                ),
                Some(id),
            );
        }
    }
    Ok(())
}

/// No message may wait in a group without a head: it would wait for ever.
async fn check_waiting(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let stuck: Vec<(String, String, i64)> = sqlx::query_as(sql!("doctor_waiting_alone"))
        .fetch_all(connection)
        .await?;
    for (queue, group, id) in stuck {
        report.add(
            "group_head",
            format!("message {id} waits in group {group:?} of queue {queue}, which has no head"),
            format!("run `consign hold {id}` and then `consign unhold {id}`"),
            Some(MessageId(id)),
        );
    }
    Ok(())
}
