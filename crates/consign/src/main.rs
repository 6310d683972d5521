//! The binary with every app that the features name.

use std::process::ExitCode;

fn main() -> ExitCode {
    consign::run(&consign::REGISTRY)
}
