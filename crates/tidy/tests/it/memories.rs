//! `docs/memory.md` has every code that a tool answers with, and no other; the settings it names are
//! settings.

use std::collections::BTreeSet;

use crate::repository::{demand, file, files};

const DOCUMENT: &str = "docs/memory.md";

/// Capitals that are no codes of tools.
const OTHERS: &[&str] = &[
    // Kinds of memories.
    "REVIEW_GUIDE",
    // Reasons of evidence, in the table of reasons.
    "EVIDENCE_MISSING_URI",
    "EVIDENCE_MISSING_SHA256",
    "EVIDENCE_INVALID_SHA256",
    "EVIDENCE_SHA256_MISMATCH",
    "EVIDENCE_INVALID_REF",
    "EVIDENCE_LEGACY_NO_SHA256",
    // A switch in the environment.
    "GATEWAY_SKIP_",
];

#[test]
fn every_code_of_a_tool_is_explained_and_nothing_else_is() {
    let mut used = BTreeSet::new();
    let folders = [
        "apps/memory/src/gateway",
        "apps/memory/src/tools",
        "apps/memory/src/report.rs",
        "apps/memory/src/http/agent.rs",
    ];
    for source in files(&["rs"]) {
        if folders.iter().any(|folder| source.path.starts_with(folder)) {
            let code = source.text.split("#[cfg(test)]").next().unwrap_or_default();
            used.extend(capitals(code, '"'));
        }
    }
    used.retain(|code| !OTHERS.contains(&code.as_str()));
    assert!(used.len() > 20, "only {used:?}");
    let document = file(DOCUMENT).text;
    let (_, codes) = document
        .split_once("### Codes")
        .expect("the table is there");
    let (codes, _) = codes.split_once("\n## ").expect("something follows");
    let rows = codes.lines().filter(|line| line.starts_with("| `"));
    let told: BTreeSet<String> = rows
        .filter_map(|row| row.split(" | ").next())
        .flat_map(|cell| capitals(cell, '`'))
        .collect();
    let absent = used.difference(&told);
    let absent = absent.map(|code| format!("{DOCUMENT}: no row for `{code}`"));
    let stale = told.difference(&used);
    let stale = stale.map(|code| format!("{DOCUMENT}: nothing answers `{code}`"));
    let complaints: Vec<String> = absent.chain(stale).collect();
    demand(&complaints, "Agents act on codes; say what leads to each.");
}

/// Words in capitals with an underline between two of these quotes.
fn capitals(text: &str, quote: char) -> BTreeSet<String> {
    let is_code = |word: &&str| {
        word.contains('_')
            && word.len() > 5
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    text.split(quote)
        .filter(is_code)
        .map(str::to_owned)
        .collect()
}

#[test]
fn settings_that_are_named_are_settings() {
    let keys = file("apps/memory/src/settings.rs").text;
    let document = file(DOCUMENT);
    let mut complaints = Vec::new();
    let mut seen = 0;
    for (number, line) in document.lines() {
        for part in line.split("`memory.").skip(1) {
            let name: String = part
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            seen += 1;
            let key = format!("\"memory.{name}");
            if !keys.contains(&key) {
                complaints.push(format!("{DOCUMENT}:{number}: no setting memory.{name}"));
            }
        }
    }
    assert!(seen > 1, "only {seen}");
    demand(&complaints, "Name settings as they are.");
}

#[test]
fn keys_of_the_policy_are_those_that_are_read() {
    let read = file("apps/memory/src/policy/settings.rs").text;
    let document = file(DOCUMENT).text;
    let table = document.split_once("| key of `policy_json` |");
    let (_, table) = table.expect("the table is there");
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    let rows: Vec<String> = rows.map(|row| first_quoted(row).to_owned()).collect();
    assert!(rows.len() > 6, "only {rows:?}");
    let told = |key: &&String| key.as_str() != "team_write_enabled";
    let unread = rows.iter().filter(told);
    let unread = unread.filter(|key| !read.contains(&format!("{key}:")));
    let complaints: Vec<String> = unread
        .map(|key| format!("{DOCUMENT}: the policy has no `{key}`"))
        .collect();
    demand(&complaints, "Name keys of the policy as they are read.");
}

/// The first word between backquotes.
fn first_quoted(row: &str) -> &str {
    row.split('`').nth(1).unwrap_or_default()
}
