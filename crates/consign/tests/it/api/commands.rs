//! The commands of the documentation work, with the `curl` of the machine.

use consign_server::{ServerOptions, testing::TestServer};
use tokio::process::Command;

use super::{docs::commands, sqlite};

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_as_printed() {
    let bench = sqlite().await;
    let server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
    let url = format!("http://localhost:{}", server.address.port());
    let script = format!(
        "set -eu\ncurl() {{ command curl -4 -sS --fail-with-body \"$@\"; }}\n{}",
        commands(&url)
    );
    let ran = Command::new("sh").arg("-c").arg(script).output().await;
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let complained = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}\n{complained}");
    server.stopped().await;
}
