//! `consign retention status`: what is kept, how it grows, and what keeps it from leaving.

use consign_kernel::{DailyGrowth, Growth, Obstacle, Period, QueueHistory, Store};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    config::{Flags, Settings},
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table},
    room::{Bound, Bounds, bytes_text},
    when::{age, span},
};

/// The history of a queue with how it grows, and what keeps its oldest message.
struct Row {
    history: QueueHistory,
    day: Option<DailyGrowth>,
    week: Option<DailyGrowth>,
    obstacle: Option<Obstacle>,
}

impl Row {
    async fn read(
        store: &dyn Store,
        history: QueueHistory,
        growth: &Growth,
    ) -> Result<Self, Failure> {
        let oldest = match history.oldest_id {
            Some(id) => store.explain(id).await?,
            None => None,
        };
        let of_queue = |period| growth.of_queue(&history.queue, period);
        Ok(Self {
            day: of_queue(Period::Day),
            week: of_queue(Period::Week),
            obstacle: oldest.as_ref().map(Obstacle::of),
            history,
        })
    }

    fn json(&self) -> Value {
        let mut value = json!(self.history);
        value["growth_per_day"] = json!({"last_day": self.day, "last_week": self.week});
        value["obstacle"] = json!(self.obstacle);
        if let Some(obstacle) = &self.obstacle {
            value["obstacle"]["sentence"] = json!(obstacle.to_string());
        }
        value
    }
}

pub(super) async fn status(context: &Context) -> Result<Exit, Failure> {
    let config = context.config(Flags::new())?;
    let settings = Settings::of(&config)?.retention;
    let store = context.open_with(&config).await?.store;
    let growth = store.growth().await?;
    let size = store.database_size().await?;
    let room = Bounds::of(&config.address()?, &settings).room(size.history_bytes);
    let full_in = room.and_then(|room| growth.full_in(room.bytes));
    let mut rows = Vec::new();
    for history in store.queue_history().await? {
        rows.push(Row::read(&*store, history, &growth).await?);
    }
    let out = context.out;
    if out.is_json() {
        let queues: Vec<Value> = rows.iter().map(Row::json).collect();
        out.json(&json!({
            "queues": queues,
            "database": {
                "bytes": size.bytes,
                "history_bytes": size.history_bytes,
                "growth_bytes_per_day": {
                    "last_day": growth.of_database(Period::Day),
                    "last_week": growth.of_database(Period::Week),
                },
                "size_max_bytes": settings.size_max_bytes,
                "room": room,
                "full_in_seconds": full_in.map(|span| span.as_secs()),
            },
            "pass": growth.pass,
        }))?;
        return Ok(Exit::Fine);
    }
    out.table(&table(&rows))?;
    out.line(format_args!(
        "database {}, of it history {}; {}",
        bytes_text(size.bytes),
        bytes_text(size.history_bytes),
        match growth.of_database(Period::Day) {
            Some(bytes) if bytes < 0 => format!("{} less a day", bytes_text(bytes.unsigned_abs())),
            Some(bytes) => format!("{} more a day", bytes_text(bytes.unsigned_abs())),
            None => "growth is measured after an hour of maintenance".to_owned(),
        }
    ))?;
    if let (Some(room), Some(full_in)) = (room, full_in) {
        let what = match room.bound {
            Bound::SizeMax => "retention.size_max_bytes is reached",
            Bound::Disk => "the disk is full",
        };
        out.line(format_args!("{what} in {} at this rate", span(full_in)))?;
    }
    print_obstacles(out, &rows, &growth)?;
    Ok(Exit::Fine)
}

fn table(rows: &[Row]) -> Table {
    let now = Timestamp::now();
    let mut table = Table::new([
        "queue",
        ">messages",
        "oldest",
        ">per day",
        ">bytes per day",
        ">may leave",
        ">enqueued",
        ">delivered",
        ">dead",
        ">discarded",
        ">erased",
        ">departed",
        ">former keys",
    ]);
    for Row { history, day, .. } in rows {
        let dash = || "-".to_owned();
        table.row([
            history.queue.to_string(),
            history.messages.to_string(),
            history.oldest_at.map_or_else(dash, |at| age(at, now)),
            day.map_or_else(dash, |day| day.messages.to_string()),
            day.map_or_else(dash, |day| bytes_text(day.bytes)),
            history.may_leave.to_string(),
            history.enqueued.to_string(),
            history.delivered.to_string(),
            history.dead.to_string(),
            history.discarded.to_string(),
            history.erased.to_string(),
            history.departed.to_string(),
            history.former_keys.to_string(),
        ]);
    }
    table
}

/// What keeps the oldest message of each queue.
fn print_obstacles(out: Output, rows: &[Row], growth: &Growth) -> Result<(), Failure> {
    for obstacle in rows.iter().filter_map(|row| row.obstacle.as_ref()) {
        out.line(format_args!("oldest of {}: {obstacle}", obstacle.queue))?;
    }
    if let Some(pass) = growth.pass.as_ref().filter(|pass| pass.end != "done") {
        let now = Timestamp::now();
        out.line(format_args!(
            "the maintenance ends with {} since {} ({} passes)",
            pass.ends.join(", "),
            age(pass.since, now),
            pass.passes
        ))?;
    }
    Ok(())
}
