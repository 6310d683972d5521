//! The report as text.

use std::fmt;

use crate::{Bound, Environment, Figure, Measure, Report, Target, Unit};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        environment(f, &self.environment)?;
        for scenario in &self.scenarios {
            writeln!(
                f,
                "\n{} ({:.0} s)",
                scenario.scenario.as_str(),
                scenario.took_s
            )?;
            table(f, &scenario.figures)?;
            for note in &scenario.notes {
                writeln!(f, "  {note}")?;
            }
        }
        let judged = self.scenarios.iter().flat_map(|scenario| &scenario.figures);
        let judged = judged.filter(|figure| figure.met.is_some()).count();
        let missed = self.missed().count();
        writeln!(f, "\n{} of {judged} targets met", judged - missed)
    }
}

fn environment(f: &mut fmt::Formatter<'_>, environment: &Environment) -> fmt::Result {
    writeln!(
        f,
        "machine     {}, {} cores, {:.1} GiB, {}, load {}",
        environment.cpu,
        environment.cores,
        environment.memory_gib,
        environment.system,
        environment.load
    )?;
    writeln!(
        f,
        "consign     {}, {} build; payload {} bytes; scale {:?}, {} rounds; handler does nothing",
        environment.consign,
        environment.build,
        environment.payload_bytes,
        environment.scale,
        environment.rounds
    )?;
    if let Some(postgres) = &environment.postgres {
        let settings = postgres.settings.iter();
        let settings: Vec<String> = settings
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let disk = postgres.filesystem.as_deref().unwrap_or("unknown");
        writeln!(f, "postgres    {}; data on {disk}", postgres.version)?;
        writeln!(f, "settings    {}", settings.join(" "))?;
    }
    writeln!(
        f,
        "sqlite      synchronous=FULL, WAL; files on {}",
        environment.directory_filesystem
    )?;
    for warning in &environment.warnings {
        writeln!(f, "WARNING     {warning}")?;
    }
    Ok(())
}

fn table(f: &mut fmt::Formatter<'_>, figures: &[Figure]) -> fmt::Result {
    let headings = ["", "consign", "compared with", "ratio", "target", ""].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(headings)
        .chain(figures.iter().map(cells))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..6).filter_map(width).collect();
    for row in &rows {
        let mut line = format!("  {:<width$}", row[0], width = widths[0]);
        for column in 1..5 {
            line += &format!("  {:>width$}", row[column], width = widths[column]);
        }
        writeln!(f, "{}", format!("{line}  {}", row[5]).trim_end())?;
    }
    Ok(())
}

fn cells(figure: &Figure) -> [String; 6] {
    let against = figure.against.as_ref();
    [
        figure.name.clone(),
        amount(figure.value, figure.unit),
        against.map_or_else(String::new, |against| {
            format!("{} {}", against.name, amount(against.value, figure.unit))
        }),
        figure
            .ratio
            .map_or_else(String::new, |ratio| format!("{ratio:.2}x")),
        figure
            .target
            .map_or_else(String::new, |target| limit(target, figure.unit)),
        match figure.met {
            Some(true) => "met".to_owned(),
            Some(false) => "MISSED".to_owned(),
            None => String::new(),
        },
    ]
}

fn limit(target: Target, unit: Unit) -> String {
    let sign = match target.bound {
        Bound::AtLeast => ">=",
        Bound::AtMost => "<=",
    };
    match target.measure {
        Measure::Value => format!("{sign} {}", amount(target.limit, unit)),
        Measure::Ratio => format!("{sign} {}x", target.limit),
    }
}

fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::MessagesPerSecond => format!("{}/s", thousands(value)),
        Unit::BytesPerMessage => format!("{value:.0} B"),
        Unit::PerMessage => format!("{value:.3}"),
        Unit::Milliseconds => format!("{value:.2} ms"),
        Unit::MicrosecondsPerMessage => format!("{value:.1} us"),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::Count => thousands(value),
        Unit::PerSecond => format!("{value:.2}/s"),
        Unit::Percent => format!("{value:.2}%"),
        Unit::Mebibytes => format!("{value:.1} MiB"),
    }
}

/// A whole number with its thousands apart.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!(thousands(7.4), "7");
        assert_eq!(thousands(999.6), "1,000");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(amount(819.2, Unit::BytesPerMessage), "819 B");
    }

    #[test]
    fn a_missed_target_is_shown_beside_its_figure() {
        let figure = Figure::beside(
            "500 each",
            Unit::MessagesPerSecond,
            "control",
            &[(3e4, 1e4)],
        )
        .target(Measure::Ratio, Bound::AtLeast, 4.0);
        let expected = [
            "500 each",
            "30,000/s",
            "control 10,000/s",
            "3.00x",
            ">= 4x",
            "MISSED",
        ];
        assert_eq!(cells(&figure), expected);
    }
}
