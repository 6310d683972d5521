//! `docs/requirements.md` names tests, which must exist; its ids are on no other page and in no code.

use std::collections::HashSet;

use crate::{
    guarantees::{is_listed, is_test, quoted},
    repository::{File, demand, file, files},
};

const PAGE: &str = "docs/requirements.md";

/// Names its layers of tests like ids of traps.
const EXEMPT: &str = "ARCHITECTURE.md";

#[test]
fn every_requirement_names_a_test_that_exists() {
    let page = file(PAGE);
    let sources = files(&["rs"]);
    let mut complaints = Vec::new();
    let rows: Vec<_> = rows(&page).collect();
    assert!(
        rows.len() > 250,
        "only {} rows: has their form changed?",
        rows.len()
    );
    for (number, cells) in rows {
        let tests = cells[3];
        if quoted(tests).next().is_none() && tests != "no test" {
            complaints.push(format!("{PAGE}:{number}: {} names no test", cells[0]));
        }
        for test in quoted(tests) {
            if !exists(&sources, test) {
                complaints.push(format!("{PAGE}:{number}: no test {test}"));
            }
        }
    }
    demand(
        &complaints,
        "Name the test that shows it now, as `path::name`.",
    );
}

#[test]
fn requirement_ids_stand_on_their_page_only() {
    let page = file(PAGE);
    let ids: HashSet<&str> = rows(&page)
        .map(|(_, cells)| cells[0])
        .filter(|id| id.starts_with(|c: char| c.is_ascii_uppercase()))
        .collect();
    let prefixes: HashSet<String> = ids.iter().map(|id| prefix_of(id)).collect();
    let mut complaints = Vec::new();
    for file in files(&["rs", "sql", "md", "toml"]) {
        if file.path == PAGE || file.path == EXEMPT {
            continue;
        }
        for (number, line) in file.lines() {
            let in_prose = words(prose(&file.path, line)).any(|word| ids.contains(word));
            let in_name = function_prefixes(line).any(|start| prefixes.contains(&start));
            if in_prose || in_name {
                complaints.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    demand(
        &complaints,
        "State the rule in words; its id and its test are in docs/requirements.md.",
    );
}

/// Rows of the tables, as cells: id, asks, source, tests.
fn rows(page: &File) -> impl Iterator<Item = (usize, Vec<&str>)> {
    page.lines().filter_map(|(number, line)| {
        let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<&str> = line.split(" | ").collect();
        (cells.len() == 4 && cells[0] != "id").then_some((number, cells))
    })
}

/// A test, or a case that a list of cases runs over every store.
fn exists(sources: &[File], test: &str) -> bool {
    let Some((path, name)) = test.split_once("::") else {
        return false;
    };
    let text_of = |path: &str| {
        let found = sources.iter().find(|file| file.path == path);
        found.map_or("", |file| file.text.as_str())
    };
    let Some((folder, _)) = path.split_once("/cases/") else {
        return is_test(text_of(path), name);
    };
    let is_defined = text_of(path).contains(&format!("fn {name}("));
    is_defined && is_listed(text_of(&format!("{folder}/cases.rs")), name)
}

/// The text of a line: all of a page, the comment of a line of code.
fn prose<'a>(path: &str, line: &'a str) -> &'a str {
    let mark = match path.rsplit('.').next() {
        Some("md") => return line,
        Some("rs") => "//",
        Some("sql") => "--",
        _ => "#",
    };
    let is_comment = |at: usize| line[..at].ends_with(' ') || line[..at].is_empty();
    let mut found = line.match_indices(mark).map(|(at, _)| at);
    found
        .find(|at| is_comment(*at))
        .map_or("", |at| &line[at..])
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '%')))
}

/// An id as the name of a function begins with it: in lower case, without signs.
fn prefix_of(id: &str) -> String {
    id.replace('-', "").to_ascii_lowercase()
}

/// The first part of a function's name, and its first two joined.
fn function_prefixes(line: &str) -> impl Iterator<Item = String> {
    let name = line.split_once("fn ").map_or("", |(_, name)| name);
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    let both = parts.next().map(|second| format!("{first}{second}"));
    [Some(first), both].into_iter().flatten()
}
