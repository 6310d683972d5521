//! `consign demo`: the guarantees at work on a throw-away database.
//!
//! Every scene checks what it claims, and the demo fails when a step does not behave.

mod delivery;
mod ending;
mod fencing;
mod keys;
mod poison;
mod story;
#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::Args;
use consign_kernel::{By, Claim, Lease, QueueName, QueuePolicy, RetrySchedule, Store};
use tokio::time::{Instant, sleep};

use self::story::{SceneWriter, check};
use crate::{
    context::Context,
    database::{self, Address, Apps, OnMissing, Reach},
    failure::{Exit, Failure},
};

/// A worker that means well gets plenty of time: only staged crashes may lose a lease, however
/// slow the machine.
const PATIENT_LEASE: Duration = Duration::from_secs(60);
/// A worker that is about to crash.
const SHORT_LEASE: Duration = Duration::from_millis(150);
/// Longest wait for a lease to end or a retry to fall due.
const WAIT_MAX: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Show the guarantees on a temporary database.
///
/// Takes a few seconds and uses no database of yours.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Keep the database and print its path
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let folder = tempfile::Builder::new().prefix("consign-demo-").tempdir()?;
        let address = Address::file(&folder.path().join("demo.db"));
        let apps = Apps::none(context.sources().registry);
        database::migrate(&address, &apps).await?;
        let opened = database::open(
            &address,
            &apps,
            &Reach::for_a_command(),
            OnMissing::Create,
            context.out,
        )
        .await?;
        let mut story = SceneWriter::new(context.out);
        let played = play(&*opened.store, &mut story).await;
        if self.keep {
            let path = folder.keep();
            story.kept(&Address::file(&path.join("demo.db")))?;
        }
        played?;
        Ok(Exit::Fine)
    }
}

async fn play(store: &dyn Store, story: &mut SceneWriter) -> Result<(), Failure> {
    let policy = QueuePolicy {
        attempts_max: 3,
        retry: RetrySchedule::Table {
            delays_ms: vec![100, 200],
        },
        ..QueuePolicy::default()
    };
    let by = By::new("demo", "the demo needs a queue");
    store.put_queue(&queue(), &policy, &by).await?;
    keys::play(store, story).await?;
    delivery::play(store, story).await?;
    fencing::play(store, story).await?;
    let poison = poison::play(store, story).await?;
    ending::play(store, story, poison).await
}

fn queue() -> QueueName {
    "demo".parse().expect("invariant: a plain name")
}

/// What a worker gets now, which may be nothing.
async fn claim(store: &dyn Store, owner: &str, ttl: Duration) -> Result<Option<Lease>, Failure> {
    let claim = Claim::new(queue(), owner, 100).with_ttl(ttl);
    Ok(store.claim(&claim).await?)
}

/// What a worker gets as soon as there is something.
async fn claim_soon(store: &dyn Store, owner: &str, ttl: Duration) -> Result<Lease, Failure> {
    let ends = Instant::now() + WAIT_MAX;
    loop {
        if let Some(lease) = claim(store, owner, ttl).await? {
            return Ok(lease);
        }
        check(Instant::now() < ends, || {
            format!("{owner} got nothing to do within {WAIT_MAX:?}")
        })?;
        sleep(POLL_INTERVAL).await;
    }
}
