//! Cron expressions in a time zone.

#[cfg(test)]
mod foreign;
#[cfg(test)]
mod tests;

use consign_kernel::{CRON_BYTES_MAX, Error, Result, TIME_ZONE_BYTES_MAX, nearest, quoted};
use croner::parser::{CronParser, Seconds, Year};
use jiff::{
    RoundMode, SignedDuration, Timestamp, TimestampRound, Unit,
    civil::DateTime,
    tz::{TimeZone, db},
};

const FIELDS: &str = "an expression has five fields: minute, hour, day of month, month, day of week; \
     or six, with seconds before them; or is one of @hourly, @daily, @weekly, @monthly, @yearly";

/// A cron expression in a time zone.
///
/// Where the local clock jumps, it goes as Vixie cron does. An expression whose seconds, minutes and
/// hours begin with no `*` names times of the day: a tick in an hour that is skipped comes when the
/// clock has jumped, and in an hour that comes twice it ticks the first time only. Any other expression
/// names intervals: it ticks whenever the local clock shows one of its times.
#[derive(Clone, Debug)]
pub struct Cron {
    text: String,
    expression: croner::Cron,
    zone: TimeZone,
    names_times: bool,
}

impl Cron {
    /// Reads an expression and the name of a time zone.
    pub fn parse(expression: &str, time_zone: &str) -> Result<Self> {
        let refuse = |why: String| Err(Error::out_of_bounds("cron", quoted(expression), why));
        if expression.len() > CRON_BYTES_MAX {
            return refuse(format!("must be at most {CRON_BYTES_MAX} bytes"));
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed);
        let parsed = match parser.build().parse(expression) {
            Ok(parsed) => parsed,
            Err(error) => {
                let error = error.to_string();
                return refuse(format!("{}; {FIELDS}", error.trim_end_matches('.')));
            }
        };
        Ok(Self {
            text: expression.to_owned(),
            expression: parsed,
            zone: zone(time_zone)?,
            names_times: names_times(expression),
        })
    }

    /// The first tick after a time.
    pub fn after(&self, time: Timestamp) -> Result<Timestamp> {
        let second = TimestampRound::new()
            .smallest(Unit::Second)
            .mode(RoundMode::Floor);
        let time = time.round(second).map_err(|_| self.none_after(time))?;
        let none = || self.none_after(time);
        let mut offset = self.zone.to_offset(time);
        let local = offset.to_datetime(time);
        let mut found = match self.end_of_repeated_times(time, local) {
            Some(end) => self.next_local(end, true).ok_or_else(none)?,
            None => self.next_local(local, false).ok_or_else(none)?,
        };
        for jump in self.zone.following(time) {
            let at = jump.timestamp();
            let (before, after) = (offset.to_datetime(at), jump.offset().to_datetime(at));
            if found < before {
                break;
            }
            // The local clock jumps from `before` to `after`, and has not shown `found` until then.
            offset = jump.offset();
            if found < after && self.names_times {
                return Ok(at);
            }
            if found < after || (after < before && !self.names_times) {
                found = self.next_local(after, true).ok_or_else(none)?;
            }
        }
        offset.to_timestamp(found).map_err(|_| none())
    }

    fn next_local(&self, from: DateTime, is_inclusive: bool) -> Option<DateTime> {
        let found = self.expression.find_next_occurrence(&from, is_inclusive);
        found.ok()
    }

    /// Among local times that come the second time: where they end, if the first time was enough.
    fn end_of_repeated_times(&self, time: Timestamp, local: DateTime) -> Option<DateTime> {
        if !self.names_times {
            return None;
        }
        let following = time + SignedDuration::from_secs(1);
        let last = self.zone.preceding(following).next()?;
        let just_before = last.timestamp() - SignedDuration::from_secs(1);
        let before = self
            .zone
            .to_offset(just_before)
            .to_datetime(last.timestamp());
        (local < before).then_some(before)
    }

    fn none_after(&self, time: Timestamp) -> Error {
        let why = format!("it has no tick after {time}, because no day fits it");
        Error::out_of_bounds("cron", quoted(&self.text), why)
    }

    /// The ticks in `[from, until)`.
    pub(crate) fn between(
        &self,
        from: Timestamp,
        until: Timestamp,
    ) -> impl Iterator<Item = Result<Timestamp>> {
        let mut last = Some(from - SignedDuration::from_nanos(1));
        std::iter::from_fn(move || {
            let next = self.after(last?);
            last = next.as_ref().ok().copied();
            match next {
                Ok(tick) if tick >= until => None,
                next => Some(next),
            }
        })
    }
}

/// Whether seconds, minutes and hours begin with no `*`.
fn names_times(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    match fields[..] {
        [nickname] => !nickname.eq_ignore_ascii_case("@hourly"),
        _ => {
            let of_day = fields.len().saturating_sub(3);
            !fields
                .iter()
                .take(of_day)
                .any(|field| field.starts_with('*'))
        }
    }
}

/// A time zone of the machine's database, or of the one that is built in where the machine has none.
fn zone(name: &str) -> Result<TimeZone> {
    let is_name = (1..=TIME_ZONE_BYTES_MAX).contains(&name.len());
    match TimeZone::get(name) {
        Ok(zone) if is_name && !zone.is_unknown() => Ok(zone),
        _ => {
            let known: Vec<String> = db().available().map(|name| name.to_string()).collect();
            let meant = nearest(name, known.iter().map(String::as_str));
            let meant = meant
                .map(|name| format!(" Did you mean {name:?}?"))
                .unwrap_or_default();
            let why = format!(
                "is not in the IANA database of time zones; give a name such as Europe/Berlin or UTC.{meant}"
            );
            Err(Error::out_of_bounds("time_zone", quoted(name), why))
        }
    }
}
