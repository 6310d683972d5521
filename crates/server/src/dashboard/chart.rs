//! Small SVG charts, rendered on the server: no script is needed to see them.

use std::fmt::{self, Write as _};

use askama::filters::HtmlSafe;

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 28.0;

/// An SVG chart. Holds only numbers and fixed texts.
#[derive(Clone, Debug, Default)]
pub(super) struct Chart(String);

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Chart {}

impl Chart {
    /// A chart of SVG with fixed texts and numbers only.
    pub(super) fn of(svg: String) -> Self {
        Self(svg)
    }
}

/// A line through the points, oldest first. `what` is the title, a fixed text.
pub(super) fn sparkline(what: &'static str, points: &[f64]) -> Chart {
    let most = points.iter().copied().fold(0.0, f64::max);
    let step = WIDTH / (points.len().max(2) - 1) as f64;
    let mut line = String::new();
    for (index, point) in points.iter().enumerate() {
        let x = index as f64 * step;
        let y = height(*point, most);
        write!(line, "{x:.1},{:.1} ", HEIGHT - y).expect("invariant: strings take everything");
    }
    chart(
        what,
        most,
        &format!("<polyline points=\"{}\"/>", line.trim_end()),
    )
}

/// A value above zero is visible.
fn height(point: f64, most: f64) -> f64 {
    if point <= 0.0 || most <= 0.0 {
        return 0.0;
    }
    (point / most * HEIGHT).max(1.0)
}

fn chart(what: &'static str, most: f64, shapes: &str) -> Chart {
    Chart(format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" preserveAspectRatio=\"none\">\
         <title>{what}</title><desc>Highest: {most:.0}</desc>{shapes}</svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_left_to_right_and_the_highest_point_touches_the_top() {
        let drawn = sparkline("Delivered a minute", &[0.0, 5.0, 10.0]).to_string();
        assert!(drawn.contains("0.0,28.0 60.0,14.0 120.0,0.0"), "{drawn}");
        assert!(drawn.contains("<title>Delivered a minute</title>"));
        let flat = sparkline("x", &[0.0; 3]).to_string();
        assert!(flat.contains("0.0,28.0 60.0,28.0 120.0,28.0"), "{flat}");
        assert!(!sparkline("x", &[]).to_string().contains("NaN"));
        assert!(!sparkline("x", &[1.0]).to_string().contains("inf"));
    }
}
