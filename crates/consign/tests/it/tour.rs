//! The commands in the documentation print what it shows.

use std::{path::Path, process::Command};

#[test]
fn the_documented_commands_print_what_is_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("scripts/tour"))
        .env("CONSIGN_BIN", env!("CARGO_BIN_EXE_consign"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "scripts/tour: {}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
