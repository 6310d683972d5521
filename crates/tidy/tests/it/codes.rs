//! Codes are interface: each is explained.

use std::collections::BTreeSet;

use crate::repository::{demand, file, files, is_product};

#[test]
fn every_error_code_is_explained() {
    let mut codes = BTreeSet::new();
    for migration in files(&["sql"]) {
        codes.extend(quoted_after(&migration.text, "ERRCODE = '", '\'', |code| {
            code.starts_with("CN")
        }));
    }
    let kernel = file("crates/kernel/src/error.rs").text;
    let (_, table) = kernel.split_once("fn code(").expect("Error::code is there");
    codes.extend(quoted_after(table, "=> \"", '"', |_| true));
    assert!(codes.len() > 12, "only {codes:?}");
    explained(
        "docs/errors.md",
        &codes,
        "An error code is for programs; say what leads to it.",
    );
}

#[test]
fn every_finding_of_doctor_is_explained() {
    let mut codes = BTreeSet::new();
    for source in files(&["sql", "rs"]).into_iter().filter(is_product) {
        let is_check = source.path.contains("postgres/sql/doctor_");
        let is_rust = source.path.starts_with("crates/sqlite/src/")
            || source.path.contains("/src/store/sqlite/");
        if is_check {
            codes.extend(quoted_after(&source.text, "SELECT '", '\'', |_| true));
        } else if is_rust && source.path.contains("doctor") {
            let flat = source.text.split_whitespace().collect::<String>();
            codes.extend(quoted_after(&flat, "report.add(\"", '"', |_| true));
        }
    }
    codes.retain(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    // Names of places, not of findings.
    for place in ["ready", "leased", "lease", "held", "dead", "waiting"] {
        codes.remove(place);
    }
    assert!(codes.len() > 15, "only {codes:?}");
    explained(
        "docs/operations.md",
        &codes,
        "An operator looks a finding up at night; add its meaning and remedy.",
    );
}

fn explained(path: &str, codes: &BTreeSet<String>, remedy: &str) {
    let document = file(path);
    let complaints: Vec<String> = codes
        .iter()
        .filter(|code| !document.text.contains(&format!("| `{code}` |")))
        .map(|code| format!("{path}: no row for `{code}`"))
        .collect();
    demand(&complaints, remedy);
}

/// What follows `start` up to `end`, wherever it occurs.
fn quoted_after(
    text: &str,
    start: &str,
    end: char,
    wanted: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    text.split(start)
        .skip(1)
        .filter_map(|rest| rest.split(end).next())
        .filter(|code| wanted(code))
        .map(str::to_owned)
        .collect()
}
