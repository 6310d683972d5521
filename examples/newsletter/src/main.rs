//! consign with one app: every command, setting, route and page of the engine, and those of the newsletter.

use std::process::ExitCode;

use consign_app::Registry;

static REGISTRY: Registry = consign::registry(&[&newsletter::Newsletter]);

fn main() -> ExitCode {
    consign::run(&REGISTRY)
}
