//! Turns: in an ordered group, whoever is ready or leased has the turn.

use std::collections::BTreeMap;

use consign_kernel::MessageId;
use sqlx::SqliteConnection;

use super::{Report, places::Suspect};
use crate::{error::Result, lanes, rows::lane_name, sql};

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
    for (lane, group, id, is_member, others_wait) in &turns {
        holders.insert((lane, group), *id);
        if !is_member || !unfinished.contains_key(id) {
            let stuck = if *others_wait {
                ", and others wait for it"
            } else {
                ""
            };
            report.add(
                "turn",
                format!(
                    "group {group:?} of lane {lane} has the turn of message {id}, which is \
                         delivered or not of this group{stuck}"
                ),
                format!(
                    "give the turn to the first who waits, or delete it: DELETE FROM turn \
                         WHERE lane = '{lane}' AND message_id = {id}"
                ),
                Some(MessageId(*id)),
            );
        }
    }
    check_active(connection, messages, &holders, report).await?;
    check_waiting(connection, report).await
}

/// Whoever is ready or leased in an ordered lane must have its group's turn.
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
        let lane = message.lane.as_str();
        if !ordered.contains_key(lane) {
            let found = lanes::lane(connection, &lane_name(lane)?).await?;
            ordered.insert(lane, found.is_some_and(|lane| lane.policy.ordered));
        }
        let holder = holders.get(&(lane, group.as_str())).copied();
        if ordered[lane] && holder != Some(message.id.0) {
            let id = message.id;
            report.add(
                "turn",
                format!("message {id} is out of turn in group {group:?} of lane {lane}"),
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
    for (lane, group, id) in stuck {
        report.add(
            "turn",
            format!(
                "message {id} waits in group {group:?} of lane {lane}, though it is nobody's \
                     turn there"
            ),
            format!("run `consign hold {id}` and then `consign unhold {id}`"),
            Some(MessageId(id)),
        );
    }
    Ok(())
}
