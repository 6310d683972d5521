//! What is printed: tables for people, JSON for programs.

use std::{
    fmt::Display,
    io::{self, Write},
};

use serde::Serialize;
use serde_json::json;

use crate::color::{Colors, Paint};

/// Longest cell of a table; `show` prints what was cut.
const CELL_CHARS_MAX: usize = 48;

/// Standard output and standard error, as text or JSON.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    colors: Colors,
}

impl Output {
    /// JSON for programs, or text for people.
    pub fn new(json: bool) -> Self {
        let colors = Colors::default();
        Self { json, colors }
    }

    /// The same with colours; JSON has none.
    #[must_use]
    pub fn with_colors(self, colors: Colors) -> Self {
        Self { colors, ..self }
    }

    /// A state, in its colour on a terminal. For text that is printed by [`Output::painted`].
    pub fn paint(self, word: &str) -> String {
        let paint = Paint::of_word(word).filter(|_| self.colors.stdout);
        paint.map_or_else(|| word.to_owned(), |paint| paint.on(word))
    }

    /// One line whose parts were made harmless, with colours among them.
    pub fn painted(self, text: impl Display) -> io::Result<()> {
        named(writeln!(io::stdout(), "{text}"))
    }

    /// Whether standard output has colours.
    pub fn has_colors(self) -> bool {
        self.colors.stdout && !self.json
    }

    /// Whether programs read it.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// One line of text for people.
    pub fn line(self, text: impl Display) -> io::Result<()> {
        named(writeln!(io::stdout(), "{}", readable(&text.to_string())))
    }

    /// One line of JSON for programs.
    pub fn json(self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(value).map_err(io::Error::other)?;
        named(writeln!(io::stdout(), "{text}"))
    }

    /// A table for people.
    pub fn table(self, table: &Table) -> io::Result<()> {
        let text = table.render(self.has_colors());
        named(write!(io::stdout(), "{text}"))
    }

    /// A remark beside the result, on standard error.
    pub fn note(self, text: impl Display) -> io::Result<()> {
        if self.json {
            writeln!(io::stderr(), "{}", json!({"note": text.to_string()}))
        } else {
            writeln!(io::stderr(), "{}", readable(&text.to_string()))
        }
    }
}

/// The error of a full disk names no file.
fn named(written: io::Result<()>) -> io::Result<()> {
    written.map_err(|error| {
        let what = format!("standard output cannot be written: {error}");
        io::Error::new(error.kind(), what)
    })
}

/// Rows under headings, aligned.
#[derive(Debug)]
pub struct Table {
    /// A heading that starts with `>` makes a column of numbers, aligned to the right.
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            headings: headings.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a cell for every heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells
            .into_iter()
            .map(|cell| shorten(&plain(&cell)))
            .collect();
        assert_eq!(cells.len(), self.headings.len(), "a cell for every heading");
        self.rows.push(cells);
    }

    /// A cell in its colour. Headings are bold, states and outcomes have the colour of what they mean.
    fn paint(&self, row: usize, column: usize, cell: &str) -> Option<Paint> {
        let heading = self.headings[column].trim_start_matches('>');
        match heading {
            _ if row == 0 => Some(Paint::Heading),
            "state" | "outcome" | "what" => Paint::of_word(cell),
            _ => None,
        }
    }

    fn render(&self, colors: bool) -> String {
        let headings: Vec<String> = self
            .headings
            .iter()
            .map(|heading| heading.trim_start_matches('>').to_owned())
            .collect();
        let lines = || std::iter::once(&headings).chain(&self.rows);
        let width = |column: usize| lines().map(|cells| cells[column].chars().count()).max();
        let widths: Vec<usize> = (0..headings.len()).filter_map(width).collect();
        let mut text = String::new();
        for (row, cells) in lines().enumerate() {
            let padded = cells.iter().enumerate().map(|(column, cell)| {
                let gap = " ".repeat(widths[column] - cell.chars().count());
                let paint = self.paint(row, column, cell).filter(|_| colors);
                let cell = paint.map_or_else(|| cell.clone(), |paint| paint.on(cell));
                if self.headings[column].starts_with('>') {
                    format!("{gap}{cell}")
                } else {
                    format!("{cell}{gap}")
                }
            });
            let line: Vec<String> = padded.collect();
            text.push_str(line.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// Text that can neither steer a terminal nor look like another: keys, codes and details are
/// untrusted.
pub fn plain(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same for what consign has put together: its own line breaks stay.
pub fn readable(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() || is_invisible(c)) && !stays(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Invisible characters, which may reverse or join the text beside them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text, or a dash where there is none.
pub fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// `1 message`, `2 messages`.
pub fn count(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= CELL_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_cannot_steer_a_terminal() {
        let mut table = Table::new([">id", "key", "state"]);
        table.row(["7".into(), "a".into(), "ready".into()]);
        table.row(["1234".into(), "\u{1b}[2Jé".into(), "dead".into()]);
        let expected =
            "  id  key         state\n   7  a           ready\n1234  \\u{1b}[2Jé  dead\n";
        assert_eq!(table.render(false), expected);
        let painted = table.render(true);
        assert!(painted.contains("\u{1b}[31mdead\u{1b}[0m"), "{painted:?}");
        assert!(painted.contains("ready\n"), "{painted:?}");
        assert!(painted.contains("1234  \\u{1b}[2Jé  "), "{painted:?}");
    }

    #[test]
    fn no_text_is_turned_around_or_hidden() {
        let hostile = "a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{9b}f\u{2028}g\u{e0041}h\ni";
        let shown = r"a\u{202e}b\u{2066}c\u{200b}d\u{feff}e\u{9b}f\u{2028}g\u{e0041}h";
        assert_eq!(plain(hostile), format!(r"{shown}\ni"));
        assert_eq!(readable(hostile), format!("{shown}\ni"));
        assert_eq!(plain("schön 日本 שלום 👍"), "schön 日本 שלום 👍");
    }

    #[test]
    fn a_long_cell_is_cut_between_characters() {
        let cut = shorten(&"ü".repeat(100));
        assert_eq!(cut.chars().count(), CELL_CHARS_MAX);
        assert!(cut.ends_with('…'));
    }
}
