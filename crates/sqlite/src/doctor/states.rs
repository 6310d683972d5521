//! Which table holds every message, and what it carries there.

use std::collections::BTreeMap;

use consign_kernel::{BATCH_MESSAGES_MAX, MessageId};
use sqlx::SqliteConnection;

use super::Report;
use crate::{
    error::Result,
    rows::{self, Entry},
    sql,
};

/// A row that holds a message.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// In words: `ready batch 7`.
    name: String,
    kind: Kind,
    queue: String,
    attempts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ready,
    Leased,
    Held,
    /// Closed for good.
    Discarded,
}

/// A message that is neither plainly delivered nor discarded.
pub(super) struct Suspect {
    pub(super) id: MessageId,
    pub(super) queue: String,
    pub(super) group: Option<String>,
    /// Whether it is in a ready batch or a lease.
    pub(super) is_active: bool,
}

type Locations = BTreeMap<i64, Vec<Location>>;

/// Checks the conservation law and the attempts; answers with the messages neither delivered nor discarded.
pub(super) async fn examine(
    connection: &mut SqliteConnection,
    report: &mut Report,
) -> Result<Vec<Suspect>> {
    let mut locations = Locations::new();
    collect_batches(connection, &mut locations, report).await?;
    collect_leases(connection, &mut locations, report).await?;
    collect_singles(connection, &mut locations).await?;
    let rows: Vec<MessageRow> = sqlx::query_as(sql!("doctor_messages"))
        .fetch_all(&mut *connection)
        .await?;
    let mut suspects = Vec::with_capacity(rows.len());
    for row in rows {
        let found = locations.remove(&row.0).unwrap_or_default();
        check_message(&row, &found, report);
        if found
            .iter()
            .any(|location| location.kind == Kind::Discarded)
        {
            continue;
        }
        suspects.push(Suspect {
            id: MessageId(row.0),
            queue: row.1,
            group: row.2,
            is_active: found.iter().any(|location| location.kind != Kind::Held),
        });
    }
    // What is left is held by a row although it is plainly delivered, or does not exist.
    check_leftovers(connection, locations, report).await?;
    check_orphans(connection, report).await?;
    Ok(suspects)
}

/// id, queue, group, attempts, whether numbered densely, delivered attempts, the last of those.
type MessageRow = (i64, String, Option<String>, i64, bool, i64, i64);

fn check_message(row: &MessageRow, found: &[Location], report: &mut Report) {
    let (id, queue, _, attempts, dense, delivered, delivered_no) = row;
    let message = Some(MessageId(*id));
    if !dense {
        report.add(
            "attempts",
            format!("message {id} has a gap in its attempts"),
            format!(
                "attempt rows of message {id} were removed with the triggers disabled; restore the \
                 table `attempt` from a backup"
            ),
            message,
        );
    }
    if *delivered > 1 {
        report.add(
            "delivered",
            format!("message {id} was delivered {delivered} times"),
            format!(
                "nothing can be undone; compare the fences in `consign show {id}` with what \
                 the sink received"
            ),
            message,
        );
    }
    if *delivered > 0 && delivered_no < attempts {
        report.add(
            "delivered",
            format!("message {id} was tried again after it was delivered"),
            format!("nothing can be undone; see `consign show {id}`"),
            message,
        );
    }
    let mut names: Vec<&str> = found
        .iter()
        .map(|location| location.name.as_str())
        .collect();
    if *delivered > 0 {
        names.push("delivered");
    }
    match names[..] {
        [_] => {}
        [] => report.add(
            "message_lost",
            format!("message {id} has no state: it would never be delivered"),
            format!(
                "put it back: INSERT INTO ready (queue, due_at, isolated, ids, tries, attempts) VALUES \
                 ('{queue}', 0, 0, '[{id}]', '[0]', '[{attempts}]')"
            ),
            message,
        ),
        _ => report.add(
            "message_doubled",
            format!(
                "message {id} has {} states: {}",
                names.len(),
                names.join(", ")
            ),
            "stop the workers and remove it from all of these but one; `delivered` always stays",
            message,
        ),
    }
    for location in found {
        check_carried(*id, queue, *attempts, location, report);
    }
}

/// The counters of a message must match its attempt rows.
fn check_carried(id: i64, queue: &str, attempts: i64, location: &Location, report: &mut Report) {
    let name = &location.name;
    if i64::from(location.attempts) != attempts {
        report.add(
            "attempts",
            format!(
                "message {id} carries {} attempts in {name}, but {attempts} are recorded",
                location.attempts
            ),
            format!("set its number of attempts in {name} to {attempts}"),
            Some(MessageId(id)),
        );
    }
    if location.queue != queue {
        report.add(
            "queue",
            format!(
                "message {id} of queue {queue} is in {name} of queue {}",
                location.queue
            ),
            format!("set the queue of {name} to {queue}"),
            Some(MessageId(id)),
        );
    }
}

async fn collect_batches(
    connection: &mut SqliteConnection,
    locations: &mut Locations,
    report: &mut Report,
) -> Result<()> {
    let batches: Vec<(i64, String, String, String, String)> =
        sqlx::query_as(sql!("doctor_batches"))
            .fetch_all(connection)
            .await?;
    for (batch, queue, ids, tries, attempts) in batches {
        let name = format!("ready batch {batch}");
        let Some(entries) = parse_entries(&name, [&ids, &tries, &attempts], report) else {
            continue;
        };
        if entries.len() > BATCH_MESSAGES_MAX {
            report.add(
                "batch_length",
                format!(
                    "{name} holds {} messages, more than {BATCH_MESSAGES_MAX}",
                    entries.len()
                ),
                "harmless: a claim splits it",
                None,
            );
        }
        file(locations, &name, Kind::Ready, &queue, &entries);
    }
    Ok(())
}

async fn collect_leases(
    connection: &mut SqliteConnection,
    locations: &mut Locations,
    report: &mut Report,
) -> Result<()> {
    type Columns = (i64, String, String, String, String, String);
    let leases: Vec<Columns> = sqlx::query_as(sql!("doctor_leases"))
        .fetch_all(connection)
        .await?;
    for (fence, queue, ids, tries, attempts, begun) in leases {
        let name = format!("lease {fence}");
        let Some(entries) = parse_entries(&name, [&ids, &tries, &attempts], report) else {
            continue;
        };
        let begun = rows::numbers(&|| name.clone(), &begun).unwrap_or_default();
        let strangers = begun
            .iter()
            .filter(|id| entries.iter().all(|e| e.id.0 != **id));
        for id in strangers {
            report.add(
                "begun",
                format!("{name} lists message {id} as begun, but does not hold it"),
                format!("remove {id} from `begun` of the lease with fence {fence}"),
                Some(MessageId(*id)),
            );
        }
        file(locations, &name, Kind::Leased, &queue, &entries);
    }
    Ok(())
}

async fn collect_singles(
    connection: &mut SqliteConnection,
    locations: &mut Locations,
) -> Result<()> {
    let singles: Vec<(String, i64, String, i64)> = sqlx::query_as(sql!("doctor_singles"))
        .fetch_all(connection)
        .await?;
    for (name, id, queue, attempts) in singles {
        let entry = rows::entry(id, 0, attempts)?;
        let kind = if name == "discarded" {
            Kind::Discarded
        } else {
            Kind::Held
        };
        file(locations, &name, kind, &queue, &[entry]);
    }
    Ok(())
}

fn parse_entries(name: &str, arrays: [&str; 3], report: &mut Report) -> Option<Vec<Entry>> {
    let [ids, tries, attempts] = arrays;
    match rows::entries(&|| name.to_owned(), ids, tries, attempts) {
        Ok(entries) if entries.is_empty() => {
            report.add(
                "empty",
                format!("{name} holds no message"),
                format!("delete {name}"),
                None,
            );
            None
        }
        Ok(entries) => Some(entries),
        Err(_) => {
            report.add(
                "arrays",
                format!("{name} has ids, tries and attempts of unequal length, or not numbers"),
                "make the three arrays equally long: one number of tries and of attempts for \
                 each id; `SELECT count(*) FROM attempt WHERE message_id = ID` gives the latter",
                None,
            );
            None
        }
    }
}

fn file(locations: &mut Locations, name: &str, kind: Kind, queue: &str, entries: &[Entry]) {
    for entry in entries {
        locations.entry(entry.id.0).or_default().push(Location {
            name: name.to_owned(),
            kind,
            queue: queue.to_owned(),
            attempts: entry.attempts,
        });
    }
}

async fn check_leftovers(
    connection: &mut SqliteConnection,
    locations: Locations,
    report: &mut Report,
) -> Result<()> {
    let known: Vec<(i64, String)> = sqlx::query_as(sql!("doctor_known"))
        .bind(rows::array(locations.keys().copied()))
        .fetch_all(connection)
        .await?;
    let known: BTreeMap<i64, String> = known.into_iter().collect();
    for (id, found) in locations {
        let names: Vec<&str> = found
            .iter()
            .map(|location| location.name.as_str())
            .collect();
        let names = names.join(", ");
        let message = Some(MessageId(id));
        if known.contains_key(&id) {
            report.add(
                "message_doubled",
                format!("message {id} is delivered, but also in {names}"),
                format!("stop the workers and remove {id} from {names}: delivered is final"),
                message,
            )
        } else {
            report.add(
                "unknown",
                format!("{names} holds message {id}, which does not exist"),
                format!("remove {id} from {names}, or restore table `message` from a backup"),
                message,
            )
        }
    }
    Ok(())
}

async fn check_orphans(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let ids: Vec<i64> = sqlx::query_scalar(sql!("doctor_orphans"))
        .fetch_all(connection)
        .await?;
    for id in ids {
        report.add(
            "unknown",
            format!("attempts of message {id} are recorded, but the message does not exist"),
            "restore the table `message` from a backup",
            Some(MessageId(id)),
        );
    }
    Ok(())
}
