//! Every dependency has a line that says why.

use std::collections::BTreeSet;

use crate::repository::{crates, demand, file};

#[test]
fn every_dependency_is_accounted_for() {
    let mut used = declared("Cargo.toml");
    for name in crates() {
        used.extend(declared(&format!("{name}/Cargo.toml")));
    }
    let explained: BTreeSet<String> = file("docs/dependencies.md")
        .lines()
        .filter_map(|(_, line)| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect();
    let missing = used
        .difference(&explained)
        .map(|name| format!("{name}: no line"));
    let stale = explained
        .difference(&used)
        .map(|name| format!("{name}: not used any more"));
    let complaints: Vec<String> = missing.chain(stale).collect();
    demand(
        &complaints,
        "A row of docs/dependencies.md starts with the name in backticks and says why it is there, \
         what else was considered and who keeps it.",
    );
}

/// The crates from elsewhere that a manifest names.
fn declared(path: &str) -> BTreeSet<String> {
    let manifest = file(path);
    let mut names = BTreeSet::new();
    let mut inside = false;
    for (_, line) in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim_end_matches(']').ends_with("dependencies");
        } else if inside {
            let name = line.split([' ', '=', '.']).next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with(['#', '"']) {
                names.insert(name.to_owned());
            }
        }
    }
    names.retain(|name| !name.starts_with("consign"));
    names
}
