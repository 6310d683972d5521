//! Charts with axes and numbers, and the table behind them.

use std::fmt::Write as _;

use askama::Template;
use jiff::Timestamp;

use super::{
    chart::Chart,
    rates::{Point, Window},
    words::{count, span},
};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 150.0;
/// Room for the numbers of the axes.
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 18.0;
const TOP: f64 = 6.0;

/// The charts of a queue, or of all queues together.
#[derive(Template)]
#[template(path = "charts.html")]
pub(super) struct Charts {
    /// What the table and the charts are of.
    of: String,
    windows: Vec<WindowLink>,
    /// Each with its title.
    charts: Vec<(&'static str, Chart)>,
    rows: Vec<Row>,
    /// How long one point is.
    step: &'static str,
}

struct WindowLink {
    word: &'static str,
    path: String,
    is_current: bool,
}

/// The numbers of one point.
struct Row {
    at: String,
    delivered: String,
    retried: String,
    dead: String,
    uncertain: String,
    due: String,
    oldest: String,
    p50: String,
    p99: String,
}

/// A line of a chart: its name, its class and its values, oldest first.
struct Series {
    name: &'static str,
    values: Vec<f64>,
}

impl Charts {
    /// Charts of these points, with links to other windows of the page at `path`.
    pub(super) fn new(of: String, path: &str, window: Window, points: &[Point]) -> Self {
        let link = |(word, other): (&'static str, Window)| WindowLink {
            word,
            path: format!("{path}?window={}", other.as_str()),
            is_current: other == window,
        };
        Self {
            of,
            windows: Window::ALL.into_iter().map(link).collect(),
            charts: charts(window, points),
            rows: points
                .iter()
                .rev()
                .map(|point| row(window, point))
                .collect(),
            step: window.step_words(),
        }
    }
}

fn charts(window: Window, points: &[Point]) -> Vec<(&'static str, Chart)> {
    let minutes = f64::from(window.minutes().1);
    let series = |name, value: &dyn Fn(&Point) -> f64| Series {
        name,
        values: points.iter().map(value).collect(),
    };
    let rate = [series("delivered", &|it| {
        it.done.delivered as f64 / minutes
    })];
    let failed = [
        series("failed", &|it| {
            (it.done.failed() - it.done.dead) as f64 / minutes
        }),
        series("dead", &|it| it.done.dead as f64 / minutes),
    ];
    let age = [series("oldest", &|it| {
        it.backlog.oldest_ms as f64 / 1_000.0
    })];
    let percentile = |percent| move |it: &Point| it.done.percentile_ms(percent).unwrap_or(0.0);
    let latency = [
        series("p50", &percentile(50)),
        series("p99", &percentile(99)),
    ];
    [
        ("Delivered a minute", &rate[..], "per minute"),
        ("Failed attempts a minute", &failed[..], "per minute"),
        ("Age of the oldest due message", &age[..], "s"),
        ("Delivery time, p50 and p99", &latency[..], "ms"),
    ]
    .into_iter()
    .map(|(title, series, unit)| (title, drawn(title, unit, window, points, series)))
    .collect()
}

fn row(window: Window, point: &Point) -> Row {
    let done = &point.done;
    let millis = |percent| match done.percentile_ms(percent) {
        None => "–".to_owned(),
        Some(millis) => format!("{} ms", count(millis.round() as u64)),
    };
    Row {
        at: window.label(point.at),
        delivered: count(done.delivered),
        retried: count(done.retried),
        dead: count(done.dead),
        uncertain: count(done.uncertain),
        due: count(point.backlog.due),
        oldest: match point.backlog.oldest_ms {
            0 => "–".to_owned(),
            millis => span(jiff::SignedDuration::from_millis(millis as i64)),
        },
        p50: millis(50),
        p99: millis(99),
    }
}

/// A chart of some lines: axes, the lines, and for every point its numbers to hover over.
fn drawn(
    title: &'static str,
    unit: &'static str,
    window: Window,
    points: &[Point],
    series: &[Series],
) -> Chart {
    let values = series.iter().flat_map(|line| &line.values);
    let top = round_top(values.copied().fold(0.0, f64::max));
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}, in {unit}\">"
    );
    for share in [0.0, 0.5, 1.0] {
        let y = y_of(top * share, top);
        put(
            &mut svg,
            format_args!(
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{WIDTH}\"/><text x=\"{:.0}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 4.0,
                y + 4.0,
                short(top * share)
            ),
        );
    }
    put_times(&mut svg, window, points);
    for (index, line) in series.iter().enumerate() {
        let places = line.values.iter().enumerate();
        let places = places
            .map(|(at, value)| format!("{:.1},{:.1}", x_of(at, points.len()), y_of(*value, top)));
        let places = places.collect::<Vec<_>>().join(" ");
        put(
            &mut svg,
            format_args!("<polyline class=\"line{index}\" points=\"{places}\"/>"),
        );
    }
    put_numbers(&mut svg, unit, window, points, series);
    svg.push_str("</svg>");
    Chart::of(svg)
}

/// The times below the axis: five of them.
fn put_times(svg: &mut String, window: Window, points: &[Point]) {
    let last = points.len().saturating_sub(1);
    for quarter in 0..=4 {
        let index = last * quarter / 4;
        let Some(point) = points.get(index) else {
            return;
        };
        let anchor = match quarter {
            0 => "start",
            4 => "end",
            _ => "middle",
        };
        put(
            svg,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{}</text>",
                x_of(index, points.len()),
                HEIGHT - 4.0,
                window.short_label(point.at)
            ),
        );
    }
}

/// A column for every point, whose title has its numbers.
fn put_numbers(svg: &mut String, unit: &str, window: Window, points: &[Point], series: &[Series]) {
    let wide = (WIDTH - LEFT) / points.len().max(1) as f64;
    for (index, point) in points.iter().enumerate() {
        let numbers: Vec<String> = (series.iter())
            .map(|line| format!("{} {}", line.name, short(line.values[index])))
            .collect();
        put(
            svg,
            format_args!(
                "<rect x=\"{:.1}\" y=\"0\" width=\"{wide:.1}\" height=\"{HEIGHT}\"><title>{}: {} {unit}</title></rect>",
                (x_of(index, points.len()) - wide / 2.0).max(LEFT),
                window.label(point.at),
                numbers.join(", ")
            ),
        );
    }
}

fn put(svg: &mut String, part: std::fmt::Arguments<'_>) {
    svg.write_fmt(part)
        .expect("invariant: strings take everything");
}

fn x_of(index: usize, points: usize) -> f64 {
    LEFT + index as f64 * (WIDTH - LEFT) / (points.max(2) - 1) as f64
}

fn y_of(value: f64, top: f64) -> f64 {
    let tall = HEIGHT - BOTTOM - TOP;
    TOP + tall - (value / top * tall).clamp(0.0, tall)
}

/// The end of an axis that has room for a value: 1, 2 or 5 times a power of ten.
fn round_top(most: f64) -> f64 {
    let mut unit = 1.0;
    while unit * 10.0 <= most {
        unit *= 10.0;
    }
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|times| times * unit)
        .find(|top| *top >= most)
        .unwrap_or(1.0)
}

/// A number in few characters.
fn short(value: f64) -> String {
    match value {
        large if large >= 10_000_000.0 => format!("{:.0}M", large / 1_000_000.0),
        large if large >= 10_000.0 => format!("{:.0}k", large / 1_000.0),
        whole if whole >= 10.0 || whole.fract() == 0.0 => format!("{whole:.0}"),
        small => format!("{small:.1}"),
    }
}

impl Window {
    /// A time of the table.
    fn label(self, at: Timestamp) -> String {
        match self {
            Self::Hour => at.strftime("%H:%M").to_string(),
            Self::Day | Self::Week => at.strftime("%b %-d %H:%M").to_string(),
        }
    }

    /// A time below an axis.
    fn short_label(self, at: Timestamp) -> String {
        match self {
            Self::Hour | Self::Day => at.strftime("%H:%M").to_string(),
            Self::Week => at.strftime("%b %-d").to_string(),
        }
    }

    fn step_words(self) -> &'static str {
        match self {
            Self::Hour => "minute",
            Self::Day => "half an hour",
            Self::Week => "two hours",
        }
    }
}

#[cfg(test)]
mod tests {
    use consign_kernel::{Backlog, OutcomeCounts};

    use super::*;

    fn points() -> Vec<Point> {
        let begin = Timestamp::from_second(1_700_000_040).unwrap();
        let point = |minute: i64| {
            let mut done = OutcomeCounts {
                delivered: 30 * minute as u64,
                dead: minute as u64 / 2,
                ..OutcomeCounts::default()
            };
            done.count_latency(std::time::Duration::from_millis(80), 4);
            Point {
                at: begin + jiff::SignedDuration::from_mins(minute),
                done,
                backlog: Backlog {
                    due: 7,
                    oldest_ms: 61_000,
                },
            }
        };
        (0..3).map(point).collect()
    }

    #[test]
    fn a_chart_has_axes_lines_and_numbers() {
        let charts = charts(Window::Hour, &points());
        let rate = charts[0].1.to_string();
        assert!(rate.contains(">100</text>"), "the end of the axis: {rate}");
        assert!(
            rate.contains(">22:14</text>") && rate.contains(">22:16</text>"),
            "{rate}"
        );
        assert!(
            rate.contains("<title>22:16: delivered 60 per minute</title>"),
            "{rate}"
        );
        assert!(rate.contains("class=\"line0\""), "{rate}");
        assert!(charts[1].1.to_string().contains("failed 0, dead 1"));
        assert!(charts[2].1.to_string().contains("oldest 61 s"));
        assert!(charts[3].1.to_string().contains("p50 75, p99 100 ms"));
    }

    #[test]
    fn an_empty_chart_has_an_axis_from_zero_to_one() {
        let empty = drawn("x", "s", Window::Day, &[], &[]).to_string();
        assert!(
            empty.contains(">1</text>") && !empty.contains("NaN"),
            "{empty}"
        );
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (most, top) in [
            (0.0, 1.0),
            (0.4, 1.0),
            (3.0, 5.0),
            (60.0, 100.0),
            (100.0, 100.0),
            (101.0, 200.0),
        ] {
            assert_eq!(round_top(most), top, "{most}");
        }
        for (value, text) in [
            (0.25, "0.2"),
            (5.0, "5"),
            (12.3, "12"),
            (45_000.0, "45k"),
            (3e7, "30M"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
