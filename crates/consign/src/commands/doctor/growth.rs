//! Whether history leaves, and whether the database is soon full.

use consign_kernel::{Growth, PassRecord};

use crate::{
    config::{Flags, Settings},
    context::Context,
    database::Database,
    failure::Failure,
    room::{Bound, Bounds, bytes_text},
    when::span,
};

/// Fewer passes that end alike may be chance.
const PASSES_MIN: u64 = 3;
/// A database that is full sooner needs attention.
const DAYS_MIN: i64 = 30;

/// A line for each refusal of the maintenance that lasts, and for what is soon full. Nothing in a database
/// that cannot be read: its findings tell that.
pub(super) async fn hints(context: &Context, opened: &Database) -> Result<Vec<String>, Failure> {
    let config = context.config(Flags::new())?;
    let settings = Settings::of(&config)?.retention;
    let Ok(growth) = opened.store.growth().await else {
        return Ok(Vec::new());
    };
    Ok(lines(&growth, &Bounds::of(&config.address()?, &settings)))
}

fn lines(growth: &Growth, bounds: &Bounds) -> Vec<String> {
    let pass = growth.pass.as_ref();
    let stuck = pass.filter(|pass| pass.end != "done" && pass.passes >= PASSES_MIN);
    let mut lines: Vec<String> = stuck.map(stuck_line).into_iter().collect();
    lines.extend(full_line(growth, bounds));
    lines
}

fn stuck_line(pass: &PassRecord) -> String {
    let remedies: Vec<&str> = pass.ends.iter().map(|end| remedy(end)).collect();
    format!(
        "the maintenance ends with {} since {:.0} ({} passes): {}",
        pass.ends.join(", "),
        pass.since,
        pass.passes,
        remedies.join("; ")
    )
}

fn remedy(end: &str) -> &'static str {
    match end {
        "no_archive" => {
            "set retention.archive, or let messages leave without one: consign queues set NAME --archive false"
        }
        "over_size" => "consign retention status shows what keeps the oldest messages",
        "locked" => "a transaction that stays open holds a lock; end it",
        "changed" => {
            "messages past their time change again and again, by a redrive for example: consign show ID has their audit entries"
        }
        "lease_lost" => "a step takes longer than a minute, or the clock was set; see the log",
        _ => "the log of consign serve or consign work has the reason",
    }
}

fn full_line(growth: &Growth, bounds: &Bounds) -> Option<String> {
    let sample = growth.now.as_ref()?;
    let room = bounds.room(sample.size.history_bytes)?;
    let full_in = growth.full_in(room.bytes)?;
    let what = match room.bound {
        Bound::SizeMax => "retention.size_max_bytes is reached",
        Bound::Disk => "the disk of the database is full",
    };
    (full_in.as_hours() < DAYS_MIN * 24).then(|| {
        format!(
            "{what} in {} at the rate of the last day ({} left): consign retention status shows the queues",
            span(full_in),
            bytes_text(room.bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use consign_kernel::{DatabaseSize, Sample};
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    fn growth(end: &str, passes: u64, bytes: u64) -> Growth {
        let sample = |hours, bytes| Sample {
            at: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours),
            size: DatabaseSize {
                bytes,
                history_bytes: bytes,
            },
            queues: Vec::new(),
        };
        Growth {
            pass: Some(PassRecord {
                at: Timestamp::UNIX_EPOCH,
                end: end.to_owned(),
                since: Timestamp::UNIX_EPOCH,
                passes,
                ends: vec![end.to_owned()],
            }),
            now: Some(sample(24, bytes)),
            day: Some(sample(0, 0)),
            ..Growth::default()
        }
    }

    fn hints(growth: &Growth) -> Vec<String> {
        let bounds = Bounds {
            size_max_bytes: Some(31_000),
            disk: None,
        };
        lines(growth, &bounds)
    }

    #[test]
    fn a_refusal_that_lasts_is_a_hint() {
        assert_eq!(hints(&growth("done", 100, 10)), [""; 0]);
        assert_eq!(hints(&growth("no_archive", 2, 10)), [""; 0]);
        let lasting = hints(&growth("no_archive", 3, 10));
        assert_eq!(
            lasting,
            [
                "the maintenance ends with no_archive since 1970-01-01T00:00:00Z (3 passes): set \
              retention.archive, or let messages leave without one: consign queues set NAME \
              --archive false"
            ]
        );
    }

    #[test]
    fn refusals_that_alternate_are_a_hint_with_every_reason() {
        let mut growth = growth("changed", 3, 10);
        let pass = growth.pass.as_mut().unwrap();
        pass.ends = vec!["locked".to_owned(), "changed".to_owned()];
        let hint = &hints(&growth)[0];
        assert!(hint.contains("ends with locked, changed since"), "{hint}");
        assert!(hint.contains("end it; messages past their time"), "{hint}");
    }

    #[test]
    fn a_database_that_is_soon_full_is_a_hint() {
        assert_eq!(hints(&growth("done", 1, 1_000)), [""; 0], "in 30 days");
        let soon = hints(&growth("done", 1, 1_100));
        assert_eq!(
            soon,
            [
                "retention.size_max_bytes is reached in 27d 4h at the rate of the last day (29.9 kB left): \
              consign retention status shows the queues"
            ]
        );
    }
}
