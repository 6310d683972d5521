//! The configuration of the demo's service.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Result;
use serde_json::Value;

use crate::receiver::HEADER;

/// What lets the shop change the rules of its memories. No secret: every caller of the demo may do
/// everything anyway.
pub(crate) const ADMIN_KEY: &str = "demo-admin-key";

/// Where the demo's own servers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoServers {
    pub(crate) receiver: SocketAddr,
    pub(crate) closed_address: SocketAddr,
    pub(crate) memories: SocketAddr,
}

/// Writes the configuration into `folder` and returns its path.
pub(crate) fn write(folder: &Path, far: DemoServers) -> Result<PathBuf> {
    let file = folder.join("consign.toml");
    std::fs::write(&file, text(folder, far))?;
    Ok(file)
}

fn text(folder: &Path, far: DemoServers) -> String {
    let DemoServers {
        receiver,
        closed_address,
        memories,
    } = far;
    // A JSON string without control characters is a TOML string.
    let artifacts = Value::from(folder.join("artifacts").to_string_lossy().into_owned());
    let sink = |queue: &str, at: SocketAddr| {
        format!(
            "[queues.{queue}.sink]\nkind = \"http\"\nurl = \"http://{at}/{queue}\"\n\
             allow = [\"127.0.0.1\"]\nforward_headers = [\"{HEADER}\"]\n"
        )
    };
    let (mail, webhooks) = (sink("mail", receiver), sink("webhooks", receiver));
    let (newsletter, partner) = (
        sink("newsletter", receiver),
        sink("partner", closed_address),
    );
    format!(
        r#"
[worker]
owner = "demo"
grace_ms = 5000

[server]
shutdown_grace_ms = 2000

# Failures are part of the demo; its pages show them.
[log]
filter = "error,consign_payments=off"

# One letter after the other to each customer.
[queues.mail]
ordered = true
on_dead = "continue"
{mail}
[queues.webhooks]
concurrency = 8
attempts_max = 4
retry = {{ base_ms = 1500 }}
{webhooks}
[queues.newsletter]
{newsletter}
[queues.partner]
attempts_max = 50
{partner}
[queues.reports]
attempts_max = 5

[orders]
broker_adapter = "paper"

[payments]
rail = "simulated"
dispatch_timeout_sec = 5
retry_ceiling = 4
backoff_base_ms = 1000
backoff_max_ms = 4000

[memory]
openmemory_base_url = "http://{memories}"
openmemory_dialect = "python"
base_backoff_seconds = 4
governance_admin_key = "{ADMIN_KEY}"
artifacts_root = {artifacts}
"#
    )
}
