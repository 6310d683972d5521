//! Completion by the printed script, in the shell it is for.

use std::process::Command;

use crate::support::{Consign, finish};

#[test]
fn bash_completes_by_the_printed_script() {
    let consign = Consign::new();
    consign.run(["queues", "set", "mail"]).expect(0);
    let script = consign.run(["completions", "bash"]).expect(0).stdout;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_consign"));
    let play = format!(
        "{script}\nCOMP_WORDS=(consign --database '{}' ls --queue ma)\nCOMP_CWORD=5\nCOMP_TYPE=9\n\
         _clap_complete_consign consign ma --queue\necho \"${{COMPREPLY[@]}}\"\n",
        consign.database()
    );
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = Command::new("bash");
    command
        .args(["--norc", "-c", &play])
        .env("PATH", path)
        .current_dir(consign.folder());
    let ran = finish(command, b"").expect(0);
    assert_eq!(ran.stdout.trim(), "mail", "{ran:#?}");
}
