//! Blanks, READMEs, and files that are not compiled.

use crate::repository::{crates, demand, files, root};

#[test]
fn no_line_ends_in_blanks_or_contains_tabs() {
    let mut complaints = Vec::new();
    for file in files(&["rs", "sql", "md", "toml"]) {
        for (number, line) in file.lines() {
            if line != line.trim_end() {
                complaints.push(format!("{}:{number}: blanks at the end", file.path));
            }
            if line.contains('\t') {
                complaints.push(format!("{}:{number}: a tab", file.path));
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            complaints.push(format!("{}: the last line is not ended", file.path));
        }
    }
    demand(&complaints, "Remove them; `cargo fmt` does it for Rust.");
}

#[test]
fn every_crate_has_a_description() {
    let complaints: Vec<String> = crates()
        .into_iter()
        .filter(|name| {
            let readme = root().join(name).join("README.md");
            std::fs::read_to_string(readme)
                .unwrap_or_default()
                .trim()
                .is_empty()
        })
        .map(|name| format!("{name} has no README.md"))
        .collect();
    demand(
        &complaints,
        "Say in a few lines what the crate is for and what it never does.",
    );
}

#[test]
fn every_test_file_is_part_of_its_binary() {
    let all = files(&["rs"]);
    let mut complaints = Vec::new();
    for main in all
        .iter()
        .filter(|file| file.path.ends_with("/tests/it/main.rs"))
    {
        let folder = main.path.trim_end_matches("main.rs");
        for file in &all {
            let Some(name) = file.path.strip_prefix(folder) else {
                continue;
            };
            let module = name.trim_end_matches(".rs");
            let declared = main.text.lines().any(|line| {
                line == format!("mod {module};") || line == format!("pub(crate) mod {module};")
            });
            if module != "main" && !module.contains('/') && !declared {
                complaints.push(format!("{}: never compiled", file.path));
            }
        }
    }
    demand(
        &complaints,
        "Declare it with `mod` in the main.rs beside it, or delete it.",
    );
}

#[test]
fn integration_tests_of_a_crate_are_one_binary() {
    let complaints: Vec<String> = files(&["rs"])
        .iter()
        .map(|file| &file.path)
        .filter(|path| {
            matches!(
                path.split('/').collect::<Vec<_>>()[..],
                ["apps" | "crates" | "examples", _, "tests", _] | ["apps", _, _, "tests", _]
            )
        })
        .map(|path| format!("{path}: a binary of its own"))
        .collect();
    demand(
        &complaints,
        "Every file in tests/ links again: move it into tests/it/.",
    );
}
