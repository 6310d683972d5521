//! Which tests are quick: `.config/nextest.toml` leaves out what needs other programs.

use crate::repository::{File, crates, demand, file, files};

/// What starts a program that neither Rust, a POSIX shell nor PostgreSQL brings along.
const STARTS: &[(&str, &str)] = &[
    ("Browser::start", "Chromium"),
    ("NatsCluster::start", "NATS"),
    ("NatsServer::start", "NATS"),
    ("OpenMemory as Server", "OpenMemory"),
    ("OpenMemory::start", "OpenMemory"),
    ("CONSIGN_TEST_OPENMEMORY", "OpenMemory"),
    ("CONSIGN_TEST_MCP_CLIENTS", "Node.js and Python"),
    ("CONSIGN_TEST_PROMTOOL", "promtool"),
    ("PgBouncer::start", "PgBouncer"),
    ("RabbitmqServer::start", "RabbitMQ"),
    ("RedisServer::start", "Redis"),
    ("command curl", "curl"),
    ("expect_line(\"  curl \")", "curl"),
    ("import psycopg2", "Python"),
    ("scripts/clients", "Node.js and Python"),
    ("scripts/degradation", "what that script needs"),
    ("scripts/tour", "what that script needs"),
];

/// Programs that every system with a shell has.
const EVERYWHERE: &[&str] = &["id", "kill", "mkfifo", "sh", "unshare"];

/// One alternative of the filter: a package, and the modules of it that are not quick.
struct Exclusion {
    package: String,
    /// `None` for all of it.
    modules: Option<Vec<String>>,
}

#[test]
fn tests_that_need_other_programs_are_not_quick() {
    let exclusions = exclusions();
    let all = files(&["rs"]);
    let mut complaints = Vec::new();
    // The table above is in this crate.
    for (package, folder) in packages()
        .into_iter()
        .filter(|(name, _)| name != "consign-tidy")
    {
        for file in tests_of(&folder, &all) {
            let Some(program) = needed(tests_in(file)) else {
                continue;
            };
            let module = module(&folder, &file.path);
            if !exclusions.iter().any(|it| it.covers(&package, &module)) {
                complaints.push(format!("{}: needs {program}", file.path));
            }
        }
    }
    demand(
        &complaints,
        "Move such tests into a module that the filter in .config/nextest.toml names.",
    );
}

#[test]
fn what_is_not_quick_exists() {
    let packages = packages();
    let all = files(&["rs"]);
    let mut complaints = Vec::new();
    for exclusion in exclusions() {
        let Some((_, folder)) = packages
            .iter()
            .find(|(package, _)| *package == exclusion.package)
        else {
            complaints.push(format!("no package {}", exclusion.package));
            continue;
        };
        for name in exclusion.modules.unwrap_or_default() {
            if !tests_of(folder, &all).any(|file| module(folder, &file.path) == name) {
                complaints.push(format!("{}: no module {name}", exclusion.package));
            }
        }
    }
    demand(
        &complaints,
        "Remove it from the filter in .config/nextest.toml.",
    );
}

#[test]
fn every_test_is_in_the_set_of_all() {
    let config = file(".config/nextest.toml").text;
    let all = config.split("\n[profile.all]\n").nth(1).unwrap_or("");
    assert!(
        all.starts_with("default-filter = 'all()'\n"),
        "the profile `all` leaves nothing out"
    );
    let script = file("scripts/test").text;
    assert!(script.contains("--profile $profile ") && script.contains("profile=all"));
    let checks = file(".ci/run").text;
    assert!(
        checks.contains("scripts/test --all\n"),
        ".ci/run runs every test"
    );
}

impl Exclusion {
    /// Reads `package(NAME)` or `package(NAME) & test(/^(A|B)::/)`.
    fn parse(line: &str) -> Option<Self> {
        let (package, rest) = line.strip_prefix("package(")?.split_once(')')?;
        let modules = match rest {
            "" => None,
            _ => {
                let names = rest.strip_prefix(" & test(/^")?.strip_suffix("::/)")?;
                let (parent, names) = names.split_once('(').unwrap_or(("", names));
                let names = names.trim_end_matches(')').split('|');
                Some(names.map(|name| format!("{parent}{name}")).collect())
            }
        };
        let package = package.to_owned();
        Some(Self { package, modules })
    }

    fn covers(&self, package: &str, module: &str) -> bool {
        let within = |name: &String| module == name || module.starts_with(&format!("{name}::"));
        let modules = self.modules.as_ref();
        self.package == package && modules.is_none_or(|modules| modules.iter().any(within))
    }
}

/// What the filter of the quick set leaves out.
fn exclusions() -> Vec<Exclusion> {
    let config = file(".config/nextest.toml").text;
    let filter = config
        .split_once("default-filter = '''\nnot (\n")
        .and_then(|(_, rest)| rest.split_once("\n)\n'''"))
        .expect("the filter is `not (`, a line for each alternative, `)`")
        .0;
    let parse = |line: &str| {
        let line = line.trim().trim_start_matches("| ");
        Exclusion::parse(line).unwrap_or_else(|| panic!("not a package and its modules: {line}"))
    };
    filter.lines().map(parse).collect()
}

/// The names of all packages and their folders.
fn packages() -> Vec<(String, String)> {
    let named = |folder: String| {
        let manifest = file(&format!("{folder}/Cargo.toml")).text;
        let name = manifest.split("name = \"").nth(1)?.split('"').next()?;
        Some((name.to_owned(), folder))
    };
    crates().into_iter().filter_map(named).collect()
}

/// The files of a crate, those under `tests/it` and those with unit tests.
fn tests_of<'f>(folder: &str, all: &'f [File]) -> impl Iterator<Item = &'f File> {
    let roots = [format!("{folder}/tests/it/"), format!("{folder}/src/")];
    all.iter()
        .filter(move |file| roots.iter().any(|root| file.path.starts_with(root)))
}

/// What of a file is tests: all of it, or what follows the mark in a file of the program.
fn tests_in(file: &File) -> &str {
    if file.path.contains("/tests/") || file.path.ends_with("/tests.rs") {
        return &file.text;
    }
    file.text
        .split_once("#[cfg(test)]")
        .map_or("", |(_, tests)| tests)
}

/// `memory::kills` for `crates/consign/tests/it/memory/kills.rs`.
fn module(folder: &str, path: &str) -> String {
    let inner = path.strip_prefix(folder).unwrap_or(path);
    let inner = ["/tests/it/", "/src/"]
        .iter()
        .find_map(|root| inner.strip_prefix(root))
        .unwrap_or(inner);
    inner.trim_end_matches(".rs").replace('/', "::")
}

/// The program that this text starts, if it is not a standard one.
fn needed(text: &str) -> Option<String> {
    let started = text.split("Command::new(\"").skip(1);
    let mut named = started.filter_map(|rest| rest.split('"').next());
    let named = named.find(|name| !EVERYWHERE.contains(name));
    let known = STARTS.iter().find(|(start, _)| text.contains(start));
    named
        .or(known.map(|(_, program)| *program))
        .map(str::to_owned)
}
