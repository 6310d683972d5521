//! Declarations as a commented file, and as tables of Markdown.

use serde_json::Value;

use super::{Kind, Section, Setting, file};
use crate::Registry;

const WIDTH: usize = 98;

const HEAD: &str = "\
Every setting of consign with its default.

Write what you want to change into consign.toml. The environment wins over the file: tables and names \
joined by two underscores, such as CONSIGN_SERVER__LISTEN=127.0.0.1:9000. The command line wins over \
both. `consign config show` prints every value and where it comes from.";

/// A file with every setting, its meaning and its default.
pub fn default_file(registry: &Registry) -> String {
    let mut text = String::new();
    comment(&mut text, HEAD);
    for section in registry.sections() {
        text.push('\n');
        comment(&mut text, section.about);
        for table in tables(section) {
            print_table(&mut text, section, table);
        }
    }
    text
}

/// The tables of a section: its own before those within it.
fn tables(section: &Section) -> Vec<&'static str> {
    let mut tables: Vec<&str> = section.settings.iter().map(Setting::table).collect();
    tables.sort_by_key(|table| *table != section.name);
    let mut seen = Vec::new();
    for table in tables {
        if !seen.contains(&table) {
            seen.push(table);
        }
    }
    seen
}

fn print_table(text: &mut String, section: &Section, table: &str) {
    if table != section.name {
        text.push('\n');
    }
    if !table.is_empty() {
        // A table named by the user is an example.
        let mark = if table.contains('*') { "# " } else { "" };
        text.push_str(&format!("{mark}[{}]\n", table.replace('*', "NAME")));
    }
    let own = section
        .settings
        .iter()
        .filter(|setting| setting.table() == table);
    for (index, setting) in own.enumerate() {
        if index > 0 {
            text.push('\n');
        }
        print_setting(text, setting);
    }
}

fn print_setting(text: &mut String, setting: &Setting) {
    let about = plain(setting.about);
    match values(setting) {
        Some(values) => comment(text, &format!("{about} ({})", values.replace('`', ""))),
        None => comment(text, &about),
    }
    let name = match setting.name() {
        "*" => "NAME",
        name => name,
    };
    let is_example = setting.key.contains('*');
    let line = match (setting.default, setting.example) {
        (Some(value), _) if !is_example => format!("{name} = {value}\n"),
        (Some(value), _) | (None, Some(value)) => format!("# {name} = {value}\n"),
        (None, None) => format!("# {name} = ...\n"),
    };
    text.push_str(&line);
}

/// Lines that begin with `#`, of no more than `WIDTH` characters where words allow it.
fn comment(text: &mut String, prose: &str) {
    for paragraph in prose.split('\n') {
        let mut line = "#".to_owned();
        for word in paragraph.split(' ').filter(|word| !word.is_empty()) {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                text.push_str(&line);
                text.push('\n');
                line = "#".to_owned();
            }
            line.push(' ');
            line.push_str(word);
        }
        text.push_str(&line);
        text.push('\n');
    }
}

/// Markdown without its links and marks.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        let link_end = link.split_once("](").and_then(|(label, target)| {
            let (_, after) = target.split_once(')')?;
            Some((label, after))
        });
        let Some((label, after)) = link_end.filter(|(label, _)| !label.contains('`')) else {
            text.push_str(before);
            text.push('[');
            rest = link;
            continue;
        };
        text.push_str(before);
        text.push_str(label);
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The settings of a section as a table of Markdown.
pub fn table(section: &Section) -> String {
    let mut text = "| setting | default | values | meaning |\n|---|---|---|---|\n".to_owned();
    for setting in section.settings {
        let Setting { key, about, .. } = setting;
        let key = key.replace('*', "NAME");
        text.push_str(&format!(
            "| `{key}` | {} | {} | {about} |\n",
            shown_default(setting),
            values(setting).as_deref().unwrap_or("–")
        ));
    }
    text
}

fn shown_default(setting: &Setting) -> String {
    let Some(value) = setting.default.and_then(file::value) else {
        return setting.unset.to_owned();
    };
    match &value {
        Value::Number(number) if number.is_u64() => {
            shown_number(setting, number.as_u64().unwrap_or_default())
        }
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(scalar).collect::<Vec<_>>().join(", "),
        Value::String(text) if text.is_empty() => "–".to_owned(),
        value => scalar(value),
    }
}

/// What a setting may be where its declaration limits that.
fn values(setting: &Setting) -> Option<String> {
    let shown = |number: u64| shown_number(setting, number);
    match setting.kind {
        Kind::Flag => Some("true, false".to_owned()),
        Kind::Whole(least, most) if most >= i64::MAX as u64 => {
            Some(format!("at least {}", shown(least)))
        }
        Kind::Whole(least, most) => Some(format!("{} to {}", shown(least), shown(most))),
        Kind::Number(least, f64::MAX) => Some(format!("at least {least}")),
        Kind::Number(least, most) => Some(format!("{least} to {}", scalar(&most.into()))),
        Kind::Word(words) => {
            let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            Some(quoted.join(", "))
        }
        _ => None,
    }
}

fn shown_number(setting: &Setting, number: u64) -> String {
    match setting.name().contains("_bytes") {
        true => bytes(number),
        false => grouped(number),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => grouped(whole),
            (None, Some(number)) if number.fract() == 0.0 => grouped(number as u64),
            _ => number.to_string(),
        },
        value => value.to_string(),
    }
}

/// `1 MiB` where it is a whole number of them.
fn bytes(number: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if number >= MIB && number.is_multiple_of(MIB) {
        format!("{} MiB", number / MIB)
    } else {
        grouped(number)
    }
}

/// `28,800,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
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
    fn links_become_their_labels() {
        for (markdown, expected) in [
            ("see [its price](a.md#b) and [x]", "see its price and [x]"),
            ("a list of `[\"a\"]`", "a list of `[\"a\"]`"),
            ("`a` or [`b`](c.md)", "`a` or [`b`](c.md)"),
        ] {
            assert_eq!(plain(markdown), expected);
        }
    }

    #[test]
    fn defaults_are_shown_with_units_and_groups() {
        let check = |key: &'static str, toml: &'static str, expected: &str| {
            let setting = Setting::new(key, super::super::Kind::Any, "").default(toml);
            assert_eq!(shown_default(&setting), expected, "{key} = {toml}");
        };
        check("a.body_max_bytes", "8388608", "8 MiB");
        check("a.body_max_bytes", "65536", "65,536");
        check("a.ttl_ms", "28800000", "28,800,000");
        check("a.list", "[5.0, 10.0]", "5, 10");
        check("a.list", "[]", "none");
        check("a.word", "\"paper\"", "`paper`");
        check("a.share", "0.5", "0.5");
    }

    #[test]
    fn bounds_are_shown() {
        let check = |key: &'static str, kind: Kind, expected: Option<&str>| {
            let setting = Setting::new(key, kind, "");
            assert_eq!(values(&setting).as_deref(), expected, "{kind:?}");
        };
        check("a.count", Kind::Whole(1, 10_000), Some("1 to 10,000"));
        check("a.count", Kind::Whole(1, u64::MAX), Some("at least 1"));
        check(
            "a.body_max_bytes",
            Kind::Whole(1, 8 << 20),
            Some("1 to 8 MiB"),
        );
        check("a.sec", Kind::Number(0.3, 86_400.0), Some("0.3 to 86,400"));
        check("a.word", Kind::Word(&["on", "off"]), Some("`on`, `off`"));
        check("a.text", Kind::Text, None);
    }

    #[test]
    fn a_printed_setting_names_its_bounds() {
        let setting = Setting::new("a.tries", Kind::Whole(1, 9), "tries of one").default("3");
        let mut text = String::new();
        print_setting(&mut text, &setting);
        assert_eq!(text, "# tries of one (1 to 9)\ntries = 3\n");
    }
}
