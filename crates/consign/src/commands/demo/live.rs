//! `consign demo --serve`: an example shop to look at in a browser.
//!
//! The service is the real one, in this process; so are the far sides of its queues, on this machine.
//! What the shop sends goes through the HTTP API.

mod caller;
mod chance;
mod clerk;
mod far_side;
mod memories;
mod opening;
mod printers;
mod receiver;
mod settings;
mod traffic;

use std::{net::SocketAddr, path::Path, time::Duration};

use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, MissedTickBehavior, interval_at},
};

use self::{
    caller::Caller, memories::Memories, receiver::Receiver, settings::FarSides, traffic::Traffic,
};
use crate::{
    config::Config,
    context::{Context, address_of},
    database::{self, Address},
    failure::{Exit, Failure},
    output::Output,
    service::{Role, Service},
};

/// Between two messages of the shop,
const PACE: Duration = Duration::from_millis(300);
/// and once there are so many
const BUSY_MAX: u64 = 4_000;
/// between two later ones.
const PACE_LATER: Duration = Duration::from_secs(15);

const PRINTERS: u64 = 3;

/// What to serve, and how.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) listen: SocketAddr,
    pub(super) seed: u64,
}

impl Live {
    /// Serves until it is told to stop.
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let folder = tempfile::Builder::new().prefix("consign-demo-").tempdir()?;
        let (receiver, memories) = (Receiver::start().await?, Memories::start().await?);
        let far_sides = FarSides {
            receiver: receiver.address(),
            nobody: receiver.nobody(),
            memories: memories.address(),
        };
        let database = named(context).unwrap_or_else(|| own(folder.path()));
        let sources = settings::write(folder.path(), far_sides, database, self.listen)?;
        let config = Config::load(&sources)?;
        let address = address_of(&config)?;
        must_be_new(&address).await?;
        let (ready, told) = oneshot::channel();
        let service = Service {
            config,
            sources,
            role: Role::Serve,
            delivers: true,
            migrate: true,
            out: context.out,
            ready: Some(ready),
        };
        let out = context.out;
        let shop = tokio::spawn(async move {
            if let Ok(url) = told.await {
                announce(out, &url, &address);
                open_shop(&url, self.seed).await;
            }
        });
        let ended = Box::pin(service.run()).await;
        shop.abort();
        drop(shop.await);
        folder.close()?;
        ended
    }
}

/// The database of the command line. What the environment names is not for a demo to fill.
fn named(context: &Context) -> Option<Value> {
    let flags = &context.sources().flags;
    let (_, url, _) = flags.iter().find(|(path, ..)| *path == "database.url")?;
    Some(url.clone())
}

fn own(folder: &Path) -> Value {
    Address::file(&folder.join("demo.db")).to_string().into()
}

/// Refuses a database that somebody uses, and leaves it as it is. One without a single message may be
/// in use as well: for memories, for what its queues are set to, for repositories. So there must be
/// nothing of this program in it.
async fn must_be_new(address: &Address) -> Result<(), Failure> {
    let is_used = match (database::status(address).await?.is_empty(), address) {
        (true, Address::Sqlite { path, .. }) => path.metadata().is_ok_and(|file| file.len() > 0),
        (is_empty, _) => !is_empty,
    };
    if !is_used {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "{address} is in use already; the demo fills a database of its own: leave out --database, or \
         name one that is empty"
    )))
}

/// Whoever closed standard output does without the words, not without the service.
fn announce(out: Output, url: &str, address: &Address) {
    let said = match out.is_json() {
        true => out.json(&json!({"url": url, "database": address.to_string()})),
        false => out.line(format_args!(
            "{url}\n\n\
             An example shop on {address}; all of it is made up and stays on this machine.\n  \
             mail, webhooks  their receiver is slow at times, fails, or refuses\n  \
             partner         nobody is there: the breaker opens, and messages wait\n  \
             newsletter      paused, until you resume it\n  \
             reports         printers claim them over HTTP, jam, and are switched off\n  \
             orders          a paper broker\n  \
             payments        a simulated rail; some need a person\n  \
             memories        their server is away for 20 s of every minute\n\n\
             Ctrl-C ends it.",
        )),
    };
    said.unwrap_or_default();
}

/// Sends what there is to send, for ever.
async fn open_shop(url: &str, seed: u64) {
    let caller = match Caller::new(url) {
        Ok(caller) => caller,
        Err(failure) => {
            tracing::error!("the shop stays closed: {}", failure.message());
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
