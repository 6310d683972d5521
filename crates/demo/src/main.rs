//! `consign-demo-shop`: an example shop to look at in a browser.
//!
//! It starts `consign serve` with a configuration of its own; the far sides of its queues run in this
//! process. What the shop sends goes through the HTTP API.

mod caller;
mod chance;
mod clerk;
mod demo_server;
mod memories;
mod opening;
mod printers;
mod receiver;
mod service;
mod settings;
mod traffic;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    caller::Caller,
    memories::Memories,
    receiver::Receiver,
    service::{Program, Refusal},
    settings::DemoServers,
    traffic::Traffic,
};

/// Between two messages of the shop,
const PACE: Duration = Duration::from_millis(300);
/// and once there are so many
const BUSY_MAX: u64 = 4_000;
/// between two later ones.
const PACE_LATER: Duration = Duration::from_secs(15);

const PRINTERS: u64 = 3;

/// Serve an example shop with traffic of its own, to look at in a browser until Ctrl-C.
///
/// On a throw-away database, or an empty one named by --database. No setting of the environment counts.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// An empty database, as a URL [default: a throw-away SQLite file]
    #[arg(long, value_name = "URL")]
    database: Option<String>,

    /// Where the shop listens; port 0 is a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// The seed of the shop's traffic: the same seed, the same messages
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// The program that serves it [default: `consign` beside this program]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,

    /// Print the address as JSON
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let ended = Cli::parse().run().await;
    let error = match ended {
        Ok(code) => return code,
        Err(error) => error,
    };
    eprintln!("error: {error:#}");
    if error.is::<Refusal>() {
        ExitCode::from(3)
    } else {
        ExitCode::FAILURE
    }
}

impl Cli {
    /// Serves until a stop signal.
    async fn run(self) -> Result<ExitCode> {
        let program = Program::find(self.program.clone())?;
        let folder = tempfile::Builder::new().prefix("consign-demo-").tempdir()?;
        let ended = Box::pin(self.serve(&program, folder.path())).await;
        folder.close()?;
        ended
    }

    async fn serve(self, program: &Program, folder: &Path) -> Result<ExitCode> {
        let (receiver, memories) = (Receiver::start().await?, Memories::start().await?);
        let far_sides = DemoServers {
            receiver: receiver.address(),
            closed_address: receiver.closed_address(),
            memories: memories.address(),
        };
        let config = settings::write(folder, far_sides)?;
        let own = || format!("sqlite:{}", folder.join("demo.db").display());
        let database = self.database.clone().unwrap_or_else(own);
        program.check_unused(&database).await?;
        let mut service = program.serve(&config, &database, self.listen).await?;
        let url = service.url().to_owned();
        announce(self.json, &url, &database);
        let shop = tokio::spawn(async move { open_shop(&url, self.seed).await });
        let status = service.wait().await;
        shop.abort();
        drop(shop.await);
        let code = status?.code().context("consign was killed")?;
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
    }
}

/// Where the service listens, on standard output.
fn announce(json: bool, url: &str, database: &str) {
    if json {
        println!("{}", json!({"url": url, "database": database}));
        return;
    }
    println!(
        "{url}\n\n\
         An example shop on {database}; all of it is made up and stays on this machine.\n  \
         mail, webhooks  their receiver is slow at times, fails, or refuses\n  \
         partner         refuses connections: the breaker opens, and messages wait\n  \
         newsletter      paused, until you resume it\n  \
         reports         printers claim them over HTTP, jam, and are switched off\n  \
         orders          a paper broker\n  \
         payments        a simulated rail; some need a person\n  \
         memories        their server is away for 20 s of every minute\n\n\
         Ctrl-C ends it."
    );
}

/// Sends what there is to send, for ever.
async fn open_shop(url: &str, seed: u64) {
    let caller = match Caller::new(url) {
        Ok(caller) => caller,
        Err(failure) => {
            eprintln!("the demo did not start: {failure}");
            return;
        }
    };
    let mut traffic = Traffic::new(seed);
    for call in opening::calls(&mut traffic) {
        caller.post(&call).await;
    }
    let printers = (1..=PRINTERS).map(|n| printers::print(caller.clone(), n, seed));
    let mut work: tokio::task::JoinSet<()> = printers.collect();
    work.spawn(clerk::look(caller.clone(), seed));
    work.spawn(async move {
        send(&caller, &mut traffic, PACE, BUSY_MAX).await;
        send(&caller, &mut traffic, PACE_LATER, u64::MAX).await;
    });
    // Ends with the task that waits here: a set takes its tasks with it.
    while work.join_next().await.is_some() {}
}

/// Sends one after the other until there are so many.
async fn send(caller: &Caller, traffic: &mut Traffic, pace: Duration, count_max: u64) {
    let mut beats = interval_at(Instant::now() + pace, pace);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while traffic.count() < count_max {
        beats.tick().await;
        caller.post(&traffic.next()).await;
    }
}
