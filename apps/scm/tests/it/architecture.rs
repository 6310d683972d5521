//! The synchronisation does not depend on the outbox.

use std::{collections::BTreeSet, process::Command};

/// The crates of this workspace that it may use.
const ALLOWED: [&str; 4] = [
    "consign-artifacts",
    "consign-outbound",
    "consign-redact",
    "consign-scm",
];

/// All that the library is made of, whatever is switched on. What only tests use (a real ledger is
/// among it) is no part of it.
#[test]
fn neither_the_kernel_nor_a_store_nor_the_gateway_can_be_reached() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args([
        "tree",
        "--offline",
        "--package=consign-scm",
        "--all-features",
    ]);
    command.args(["--edges=normal,build", "--prefix=none", "--format={p}"]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split(' ').next());
    let names: BTreeSet<&str> = names.collect();
    assert!(names.contains("mio"), "all of it was listed: {names:?}");
    let ours: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| name.starts_with("consign"))
        .collect();
    assert_eq!(ours, ALLOWED);
    let databases = [
        "sqlx",
        "sqlx-core",
        "tokio-postgres",
        "rusqlite",
        "libsqlite3-sys",
    ];
    let database = databases.iter().find(|name| names.contains(*name));
    assert_eq!(database, None, "nor is there another way into a database");
}
