//! Checks that `docs/memory.md` lists the arguments of the tools.

use std::collections::{BTreeMap, BTreeSet};

use consign_memory::tools;
use serde_json::Value;

const DOCUMENT: &str = include_str!("../../../../docs/memory.md");

/// The rows of the table that begins with these words: cells without the bars.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let table = DOCUMENT.split_once(heading);
    let (_, table) = table.unwrap_or_else(|| panic!("no table {heading:?}"));
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| {
        let cells = line.trim_matches('|').split(" | ").map(str::trim);
        cells.collect::<Vec<_>>()
    };
    rows.map(cells).collect()
}

/// The text between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The text before each argument's parentheses, without their content.
fn named(cell: &str) -> BTreeSet<&str> {
    let mut depth = 0;
    let mut plain = Vec::new();
    for part in cell.split_inclusive(['(', ')']) {
        if depth == 0 {
            plain.push(part);
        }
        depth += part.matches('(').count();
        depth -= part.matches(')').count();
    }
    plain.into_iter().flat_map(quoted).collect()
}

#[test]
fn every_tool_is_there_with_all_it_takes() {
    let rows = rows("| tool | takes | does |");
    let mut told: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in &rows {
        for tool in quoted(row[0]) {
            assert!(told.insert(tool, named(row[1])).is_none(), "{tool} twice");
        }
    }
    let known: BTreeSet<&str> = tools::list().iter().map(|tool| tool.name).collect();
    assert_eq!(told.keys().copied().collect::<BTreeSet<_>>(), known);
    for tool in tools::list() {
        let properties = tool.input_schema["properties"].as_object().unwrap();
        let mut takes: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        // These two share a row.
        if tool.name == "logbook_get_kv" {
            takes.insert("value_json");
        }
        assert_eq!(told[tool.name], takes, "{}", tool.name);
    }
}

/// Required arguments are before the semicolon, or alone.
#[test]
fn what_a_tool_cannot_do_without_stands_first() {
    for row in rows("| tool | takes | does |") {
        let (first, rest) = row[1].split_once(';').unwrap_or(("", row[1]));
        let (first, rest) = (named(first), named(rest));
        for name in quoted(row[0]) {
            let tool = tools::list().iter().find(|tool| tool.name == name).unwrap();
            let required = tool.input_schema["required"].as_array().unwrap();
            let required: BTreeSet<&str> = required.iter().filter_map(Value::as_str).collect();
            let is_alone = first.is_empty() && required == rest;
            // Of a text and a card it is one; of two that share a row, the one that sets.
            let is_one_of = name == "memory_store" && first == ["card", "payload_md"].into();
            let is_shared = name.ends_with("_kv");
            assert!(
                first == required || is_alone || is_one_of || is_shared,
                "{name} requires {required:?}, documented {first:?}"
            );
        }
    }
}

/// Defaults of limits.
#[test]
fn defaults_are_those_of_the_tools() {
    for row in rows("| tool | takes | does |") {
        for name in quoted(row[0]) {
            let tool = tools::list().iter().find(|tool| tool.name == name).unwrap();
            for (argument, schema) in tool.input_schema["properties"].as_object().unwrap() {
                let Some(default) = schema["default"].as_u64() else {
                    continue;
                };
                let told = format!("`{argument}` ({default})");
                assert!(row[1].contains(&told), "{name}: {told} in {}", row[1]);
            }
        }
    }
}
