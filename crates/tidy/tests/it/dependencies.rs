//! Every dependency has a line with its reason.

use std::collections::BTreeSet;

use crate::{
    repository::{crates, demand, file},
    structure::package,
};

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
        "A row of docs/dependencies.md starts with the name in backticks and gives the reason for it, \
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

/// The crates that a store pulls in at most. With `idna_adapter` 1.2 there are 20 more: it reads international
/// domain names by ICU. `cargo update -p idna_adapter --precise 1.1.0` brings the lock file back.
const CRATES_MAX: usize = 109;

/// A program that uses the outbox as a library compiles no app, no HTTP client and no TLS.
#[test]
fn a_store_pulls_in_few_crates() {
    const NOT: [&str; 8] = [
        "axum",
        "clap",
        "hyper",
        "native-tls",
        "openssl",
        "reqwest",
        "ring",
        "rustls",
    ];
    let folders = crates();
    let apps = folders.iter().filter(|folder| folder.starts_with("apps/"));
    let apps: BTreeSet<String> = apps.filter_map(|folder| package(folder)).collect();
    let mut complaints = Vec::new();
    for store in ["consign-postgres", "consign-sqlite"] {
        let tree = tree(store);
        let names = tree.iter().filter_map(|line| line.split(' ').next());
        let unwanted = names.filter(|name| NOT.contains(name) || apps.contains(*name));
        complaints.extend(unwanted.map(|name| format!("{store}: depends on {name}")));
        if tree.len() > CRATES_MAX {
            let count = tree.len();
            complaints.push(format!("{store}: {count} crates, at most {CRATES_MAX}"));
        }
    }
    demand(
        &complaints,
        "`cargo tree -p PACKAGE -e normal` shows the path to a crate. Switch off default features, or put the \
         feature that needs it where it is used.",
    );
}

/// The distinct crates of a package with its default features, itself among them.
fn tree(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = std::process::Command::new(cargo)
        .args([
            "tree",
            "--offline",
            "--locked",
            "-e",
            "normal",
            "--prefix",
            "none",
            "-p",
            package,
        ])
        .current_dir(crate::repository::root())
        .output()
        .expect("cargo tree runs");
    let answer = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree -p {package}: {answer}");
    let tree = String::from_utf8_lossy(&output.stdout);
    let lines = tree
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned());
    lines.collect()
}
