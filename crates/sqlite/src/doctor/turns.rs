//! Turns: in an ordered group, whoever is ready or leased has the turn.

use std::collections::BTreeMap;

use consign_kernel::MessageId;
use sqlx::SqliteConnection;

use super::{Report, places::Suspect};
use crate::{error::Result, queues, rows::queue_name, sql};

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    messages: &[Suspect],
    report: &mut Report,
) -> Result<()> {
    let turns: Vec<(String, String, i64, bool, bool)> = sqlx::query_as(sql!("doctor_turns"))
        .fetch_all(&mut *connection)
        .await?;
    let unfinished: BTreeMap<i64, &Suspect> = messages.iter().map(|m| (m.id.0, m)).collect();
    let mut holders: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (queue, group, id, is_member, others_wait) in &turns {
        holders.insert((queue, group), *id);
        if !is_member || !unfinished.contains_key(id) {
            let stuck = if *others_wait {
                ", and others wait for it"
            } else {
                ""
            };
            report.add(
                "turn",
                format!(
                    "group {group:?} of queue {queue} has the turn of message {id}, which is \
                         delivered or not of this group{stuck}"
                ),
                format!(
                    "give the turn to the first who waits, or delete it: DELETE FROM turn \
                         WHERE queue = '{queue}' AND message_id = {id}"
                ),
                Some(MessageId(*id)),
            );
        }
    }
    check_active(connection, messages, &holders, report).await?;
    check_waiting(connection, report).await
}

/// Whoever is ready or leased in an ordered queue must have its group's turn.
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
                "turn",
                format!("message {id} is out of turn in group {group:?} of queue {queue}"),
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

/// Nobody may wait where it is nobody's turn: they would wait for ever.
async fn check_waiting(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let stuck: Vec<(String, String, i64)> = sqlx::query_as(sql!("doctor_waiting_alone"))
        .fetch_all(connection)
        .await?;
    for (queue, group, id) in stuck {
        report.add(
            "turn",
            format!(
                "message {id} waits in group {group:?} of queue {queue}, though it is nobody's \
                     turn there"
            ),
            format!("run `consign hold {id}` and then `consign unhold {id}`"),
            Some(MessageId(id)),
        );
    }
    Ok(())
}
