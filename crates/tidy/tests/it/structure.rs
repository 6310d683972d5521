//! The walls between the engine and the apps: what may depend on what, name what, and hold SQL.

use crate::repository::{File, crates, demand, file, files};

/// Programs for developers, which use the engine and apps.
const PROGRAMS: [&str; 2] = ["crates/bench", "crates/demo"];
/// The registry: one line per app.
const REGISTRY: &str = "crates/consign/src/apps.rs";
/// Their tests run on databases that have apps: of the binary, and of the roles and rights that the
/// engine and the apps have together.
const TESTS_WITH_APPS: [&str; 2] = ["crates/consign", "crates/postgres"];
/// An app, and another that it may depend on.
const EDGES: [(&str, &str); 3] = [
    ("consign-memory", "consign-scm"),
    ("consign-scm-app", "consign-memory"),
    ("consign-scm-app", "consign-scm"),
];
/// The same for tests: the library `scm` and the gateway are tested over real tables.
const TEST_EDGES: [(&str, &str); 3] = [
    ("consign-memory", "consign-scm-app"),
    ("consign-scm", "consign-memory"),
    ("consign-scm", "consign-scm-app"),
];
/// What no app may depend on.
const ABOVE: [&str; 3] = ["consign", "consign-bench", "consign-demo"];

#[test]
fn no_crate_of_the_engine_depends_on_an_app() {
    let apps = apps();
    let mut complaints = Vec::new();
    for folder in engine() {
        let is_binary = folder == "crates/consign";
        let tests_may = TESTS_WITH_APPS.contains(&folder.as_str());
        for edge in edges(&folder) {
            let is_optional = is_binary && edge.is_optional;
            if apps.contains(&edge.to) && !is_optional && !(edge.is_for_tests && tests_may) {
                complaints.push(format!("{}: depends on {}", edge.place, edge.to));
            }
        }
    }
    demand(
        &complaints,
        "The engine is usable without apps: an app implements `App` of crates/app, its tests are in \
         its own folder, and the binary has it as an optional dependency behind a feature.",
    );
}

#[test]
fn no_source_of_the_engine_names_an_app() {
    let apps = apps();
    let mut complaints = Vec::new();
    for file in files(&["rs"]) {
        let is_engine = file.path.starts_with("crates/") && !is_of(&file, &PROGRAMS);
        let is_allowed = file.path == REGISTRY
            || file.path.starts_with("crates/tidy/")
            || (is_test(&file) && is_of(&file, &TESTS_WITH_APPS));
        if !is_engine || is_allowed {
            continue;
        }
        for (number, line) in code(&file) {
            for app in apps.iter().filter(|app| is_named(line, app)) {
                complaints.push(format!("{}:{number}: names {app}", file.path));
            }
        }
        // The grammar of artifact keys, which two apps share, has a folder of that name.
        if !is_test(&file) && !is_of(&file, &["crates/artifacts"]) {
            complaints.extend(settings_of_apps(&file));
        }
    }
    demand(
        &complaints,
        "The engine calls an app through the trait `App` only; only the registry names them.",
    );
}

#[test]
fn apps_depend_on_the_engine_and_not_on_each_other() {
    let apps = apps();
    let mut complaints = Vec::new();
    for folder in crates() {
        let Some(name) = package(&folder).filter(|_| folder.starts_with("apps/")) else {
            continue;
        };
        for Edge {
            place,
            to,
            is_for_tests,
            ..
        } in edges(&folder)
        {
            let edge = (name.as_str(), to.as_str());
            let is_allowed = EDGES.contains(&edge) || (is_for_tests && TEST_EDGES.contains(&edge));
            let is_foreign = apps.contains(&to) || ABOVE.contains(&to.as_str());
            if is_foreign && to != name && !is_allowed {
                complaints.push(format!("{place}: {name} depends on {to}"));
            }
        }
        let sources = files(&["rs"]).into_iter();
        let own = format!("{folder}/src/");
        for source in sources.filter(|source| source.path.starts_with(&own)) {
            for (number, line) in code(&source) {
                for other in apps.iter().filter(|other| is_named(line, other)) {
                    let edge = (name.as_str(), other.as_str());
                    if *other != name && !EDGES.contains(&edge) && !is_test(&source) {
                        complaints.push(format!("{}:{number}: names {other}", source.path));
                    }
                }
            }
        }
    }
    demand(
        &complaints,
        "An app uses another through a port: `App::offer_port` and `Database::find_port`. What apps \
         share belongs into an engine crate.",
    );
}

#[test]
fn sql_stands_in_stores_only() {
    /// A statement begins like this.
    const STATEMENTS: [&str; 8] = [
        "\"SELECT ",
        "\"INSERT INTO ",
        "\"UPDATE ",
        "\"DELETE FROM ",
        "\"CREATE ",
        "\"ALTER ",
        "\"WITH ",
        "sqlx::",
    ];
    /// For the receiver's own database, which is none of the engine's stores.
    const RECEIVERS: &str = "crates/receiver/sql/";
    let mut complaints = Vec::new();
    for file in files(&["rs", "sql"]) {
        let is_store = file.path.starts_with("crates/postgres/")
            || file.path.starts_with("crates/sqlite/")
            || file.path.starts_with(RECEIVERS)
            || is_app_store(&file.path);
        // The control of the benchmark, and databases of tests.
        const FOR_DEVELOPERS: [&str; 4] = [
            "crates/bench",
            "crates/conformance/src/fixture",
            "crates/testkit",
            "crates/tidy",
        ];
        let is_for_developers = is_of(&file, &FOR_DEVELOPERS);
        if is_store || is_for_developers || is_test(&file) {
            continue;
        }
        if file.path.ends_with(".sql") {
            complaints.push(file.path.clone());
            continue;
        }
        for (number, line) in product(&file) {
            if STATEMENTS.iter().any(|start| line.contains(start)) {
                complaints.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    demand(
        &complaints,
        "SQL is in crates/postgres, crates/sqlite and the src/store/ of apps and examples; others call a store.",
    );
}

/// `apps/orders/src/store/...`, `apps/scm/app/src/store/...`, `examples/newsletter/src/store/...`.
fn is_app_store(path: &str) -> bool {
    let app = path
        .strip_prefix("apps/")
        .or_else(|| path.strip_prefix("examples/"))
        .and_then(|path| path.split_once("/src/"));
    app.is_some_and(|(app, within)| {
        let is_store = within.starts_with("store/") || within == "store.rs";
        is_store && (!app.contains('/') || app == "scm/app")
    })
}

/// String literals that are the name of an app or of one of its settings. `memory` is an ordinary word
/// and is looked for with its settings only.
fn settings_of_apps(file: &File) -> Vec<String> {
    const NAMES: [&str; 3] = ["orders", "payments", "scm"];
    const TABLES: [&str; 4] = ["memory", "orders", "payments", "scm"];
    let mut complaints = Vec::new();
    for (number, line) in product(file) {
        let is_name = NAMES
            .iter()
            .any(|name| line.contains(&format!("\"{name}\"")));
        let is_setting = TABLES.iter().any(|table| {
            let table = format!("{table}.");
            line.match_indices(&table).any(|(at, _)| {
                let next = line[at + table.len()..].chars().next();
                line[..at].ends_with(['"', '`', ' ', '['])
                    && next.is_some_and(|c| c.is_ascii_lowercase())
            })
        });
        if (is_name || is_setting) && line.contains('"') {
            complaints.push(format!("{}:{number}: {}", file.path, line.trim()));
        }
    }
    complaints
}

/// One crate's dependency on another of this repository.
struct Edge {
    to: String,
    /// File and line.
    place: String,
    is_for_tests: bool,
    is_optional: bool,
}

/// The dependencies that a manifest names: as `name.workspace`, `name = {...}`, `[dependencies.name]`
/// or `package = "name"`.
fn edges(folder: &str) -> Vec<Edge> {
    let manifest = file(&format!("{folder}/Cargo.toml"));
    let mut edges = Vec::new();
    let (mut is_inside, mut is_for_tests) = (false, false);
    for (number, line) in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line.contains("dependencies");
            is_for_tests = line.contains("dev-dependencies");
        }
        if !is_inside || line.starts_with('#') {
            continue;
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '-';
        let words = line.split(|c| !is_part(c));
        for word in words.filter(|word| *word == "consign" || word.starts_with("consign-")) {
            edges.push(Edge {
                to: word.to_owned(),
                place: format!("{}:{number}", manifest.path),
                is_for_tests,
                is_optional: line.contains("optional = true"),
            });
        }
    }
    edges
}

/// The packages under `apps/`.
fn apps() -> Vec<String> {
    let folders = crates().into_iter();
    let folders = folders.filter(|folder| folder.starts_with("apps/"));
    let apps: Vec<String> = folders.filter_map(|folder| package(&folder)).collect();
    assert!(apps.len() >= 5, "{apps:?}");
    apps
}

/// The folders of the engine.
fn engine() -> impl Iterator<Item = String> {
    let folders = crates().into_iter();
    let folders = folders.filter(|folder| folder.starts_with("crates/"));
    folders.filter(|folder| !PROGRAMS.contains(&folder.as_str()))
}

/// The name of the package in a folder.
pub(crate) fn package(folder: &str) -> Option<String> {
    let manifest = file(&format!("{folder}/Cargo.toml"));
    let mut lines = manifest.lines().map(|(_, line)| line);
    let name = lines.find_map(|line| line.strip_prefix("name = \""))?;
    Some(name.trim_end_matches('"').to_owned())
}

fn is_of(file: &File, folders: &[&str]) -> bool {
    let mut folders = folders.iter();
    folders.any(|folder| file.path.starts_with(&format!("{folder}/")))
}

/// A file of integration tests, or one of unit tests beside the code.
fn is_test(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    file.path.contains("/tests/") || name.ends_with("tests.rs")
}

/// Whether a line uses a crate: `use consign_x`, `consign_x::`.
fn is_named(line: &str, package: &str) -> bool {
    let name = package.replace('-', "_");
    line.match_indices(&name).any(|(at, _)| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back();
        let after = &line[at + name.len()..];
        let is_path = after.starts_with("::") || line[..at].trim_end().ends_with("use");
        !before.is_some_and(is_word) && !after.starts_with(is_word) && is_path
    })
}

/// The lines that are not comments.
fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.lines()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The same without the unit tests at the end.
fn product(file: &File) -> impl Iterator<Item = (usize, &str)> {
    code(file).take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
}
