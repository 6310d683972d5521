//! `docs/guarantees.md` names tests; they must exist in the files it names.
//!
//! A line such as ``- PostgreSQL: `name`, `name` `` names tests of that place.

use crate::repository::{File, demand, file, files};

const COUNT: usize = 11;

/// The words of the document and where the tests are.
const PLACES: &[(&str, &str)] = &[
    ("every store", "crates/conformance/src/cases.rs"),
    ("every logbook", "apps/memory/tests/it/cases.rs"),
    ("gateway", "apps/memory/"),
    ("orders", "apps/orders/"),
    ("kernel", "crates/kernel/src/"),
    ("model", "crates/conformance/tests/it/model.rs"),
    ("broken twins", "crates/conformance/tests/it/twins.rs"),
    ("PostgreSQL", "crates/postgres/tests/it/"),
    ("SQLite", "crates/sqlite/tests/it/"),
    ("command line", "crates/consign/"),
];

#[test]
fn every_named_test_exists() {
    let document = file("docs/guarantees.md");
    let sources = files(&["rs"]);
    let mut complaints = Vec::new();
    let mut named = 0;
    for (number, line) in document.lines() {
        let Some((place, names)) = PLACES.iter().find_map(|(word, path)| {
            let names = line
                .strip_prefix("- ")?
                .strip_prefix(word)?
                .strip_prefix(": ")?;
            Some((path, names))
        }) else {
            continue;
        };
        for name in quoted(names) {
            named += 1;
            if !exists(&sources, place, name) {
                complaints.push(format!(
                    "docs/guarantees.md:{number}: no test {name} in {place}"
                ));
            }
        }
    }
    assert!(
        named > 50,
        "only {named} tests named: has the form of the lines changed?"
    );
    demand(
        &complaints,
        "Name the test that shows it now, or take the promise back.",
    );
}

#[test]
fn every_guarantee_is_shown_by_a_test() {
    let document = file("docs/guarantees.md");
    let mut complaints = Vec::new();
    for number in 1..=COUNT {
        let heading = format!("## G{number} ");
        let section = document
            .text
            .split("\n## ")
            .find(|section| section.starts_with(heading.trim_start_matches("## ")));
        let shown = section.is_some_and(|section| section.contains("\n- every store: `"));
        if !shown {
            complaints.push(format!(
                "G{number}: missing, or no test of every store shows it"
            ));
        }
    }
    demand(
        &complaints,
        "Each guarantee has a section `## Gn …` with a line `- every store: …`.",
    );
}

/// The texts in backticks.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn exists(sources: &[File], place: &str, name: &str) -> bool {
    let here = |file: &&File| file.path.starts_with(place);
    let mut files = sources.iter().filter(here);
    if place.ends_with("/cases.rs") {
        return files.any(|file| is_listed(&file.text, name));
    }
    files.any(|file| is_test(&file.text, name))
}

/// Whether a list of cases has this name: a name a line.
pub(crate) fn is_listed(text: &str, name: &str) -> bool {
    text.lines()
        .any(|line| line.trim().trim_end_matches(';') == name)
}

/// Whether a function of this name has a test attribute above it.
pub(crate) fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().enumerate().any(|(index, line)| {
        let declared = line.contains(&format!("fn {name}("));
        let above = &lines[index.saturating_sub(4)..index];
        let attribute = |line: &&str| {
            let line = line.trim_start();
            line.starts_with("#[test]") || line.starts_with("#[tokio::test")
        };
        declared && above.iter().any(attribute)
    })
}
