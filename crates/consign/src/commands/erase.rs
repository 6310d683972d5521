//! `consign erase`: removes the content of finished messages, in the database and in the archive.

mod preview;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgGroup, Args};
use consign_archive::{Archive, ErasedBy};
use consign_failpoint::kill_at;
use consign_kernel::{
    By, ErasureAnswer, ErasureResult, ErasureTarget, MessageId, PAGE_ENTRIES_MAX, QueueName, Store,
};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::sleep;

use self::preview::preview;
use crate::{
    arguments::{ByArgs, message_id},
    config::{Flags, Settings},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::Output,
    progress::Progress,
};

/// The maintenance may be writing to the archive: the file of a large range takes minutes.
const LOCKED_TRIES: u32 = 1_200;
const LOCKED_PAUSE: Duration = Duration::from_millis(500);

/// Erase the content of delivered, dead and discarded messages.
///
/// Payload, headers, results and details go for ever, in the database and in the archive; the history,
/// the digest of the payload, the key, and who did it and why stay. Without --yes it prints a preview.
///
/// The archive is the one of `retention.archive`, or of --archive. Repeat the command if it fails.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["ids", "key", "correlation_id"]))]
pub(crate) struct Erase {
    /// The messages
    #[arg(value_name = "ID", value_parser = message_id)]
    ids: Vec<MessageId>,
    /// The message that has this key
    #[arg(long, requires = "queue")]
    key: Option<String>,
    /// The queue of the key
    #[arg(long, requires = "key")]
    queue: Option<QueueName>,
    /// Every message whose header correlation_id is this text
    #[arg(long, value_name = "TEXT")]
    correlation_id: Option<String>,
    /// The folder of the archive [default: retention.archive]
    #[arg(long, value_name = "FOLDER")]
    archive: Option<PathBuf>,
    /// Erase, instead of a preview
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    by: ByArgs,
}

impl Erase {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let config = context.config(Flags::new())?;
        let folder = match &self.archive {
            Some(folder) => Some(folder.clone()),
            None => Settings::of(&config)?.retention.archive,
        };
        if self.archive.is_some() {
            require_folder(folder.as_deref())?;
        }
        let store = context.open_with(&config).await?.store;
        if let Some(queue) = &self.queue {
            known_queue(&*store, queue).await?;
        }
        let target = self.target();
        if !self.yes {
            return preview(context.out, &*store, &target, folder.as_deref()).await;
        }
        if self.by.reason.is_none() {
            return Err(Failure::usage(
                "--reason: an erasure needs one for the audit log; nothing was changed",
            ));
        }
        let by = self.by.by("");
        let progress = Progress::busy("erasing, also in the archive", context.out.is_json());
        let (results, cleared) = erase_both(&*store, folder.as_deref(), &target, &by).await?;
        progress.clear();
        report(context.out, &results, &cleared)
    }

    fn target(&self) -> ErasureTarget {
        match (&self.queue, &self.key, &self.correlation_id) {
            (Some(queue), Some(key), _) => ErasureTarget::Key {
                queue: queue.clone(),
                key: key.clone(),
            },
            (_, _, Some(id)) => ErasureTarget::Correlation {
                id: id.clone(),
                after: None,
            },
            _ => ErasureTarget::Ids(self.ids.clone()),
        }
    }
}

/// Erases in the database, then in the archive: what leaves the database from then on is archived without
/// its content, and what has left before is in the archive when that is listed.
async fn erase_both(
    store: &dyn Store,
    folder: Option<&Path>,
    target: &ErasureTarget,
    by: &By,
) -> Result<(Vec<ErasureResult>, Vec<MessageId>), Failure> {
    let results = erase(store, target, by).await?;
    kill_at("erase_before_archive");
    let Some(archive) = open(folder).map_err(half_done)? else {
        return Ok((results, Vec::new()));
    };
    let archived = archived(Some(&archive), target).map_err(half_done)?;
    let wanted = in_archive(&results, archived);
    // Also where nothing is wanted: a killed command may have left the old file of what it erased, and an
    // erased message has no correlation id to be found by.
    let cleared = erase_archive(&archive, wanted, by).await?;
    Ok((results, cleared))
}

fn require_folder(folder: Option<&Path>) -> Result<(), Failure> {
    match folder {
        Some(folder) if !folder.is_dir() => {
            let what = format!("archive {} does not exist", folder.display());
            Err(Failure::new(Exit::NotFound, "no_archive", what))
        }
        _ => Ok(()),
    }
}

/// The archive. The first departure creates its folder.
fn open(folder: Option<&Path>) -> Result<Option<Archive>, Failure> {
    let folder = folder.filter(|folder| folder.is_dir());
    let archive = folder.map(Archive::open).transpose();
    archive.map_err(failed)
}

fn failed(error: consign_archive::Error) -> Failure {
    Failure::new(Exit::Wrong, "archive", error.to_string())
}

/// The messages of a target that the archive may hold.
fn archived(
    archive: Option<&Archive>,
    target: &ErasureTarget,
) -> Result<BTreeSet<MessageId>, Failure> {
    let Some(archive) = archive else {
        return Ok(BTreeSet::new());
    };
    let filter = match target {
        ErasureTarget::Ids(ids) => return Ok(ids.iter().copied().collect()),
        ErasureTarget::Key { queue, key } => consign_archive::Filter {
            queue: Some(queue.clone()),
            key: Some(key.clone()),
            ..consign_archive::Filter::default()
        },
        ErasureTarget::Correlation { id, .. } => consign_archive::Filter {
            correlation_id: Some(id.clone()),
            ..consign_archive::Filter::default()
        },
    };
    let records = archive.list(&filter, usize::MAX).map_err(failed)?;
    Ok(records.iter().map(|record| record.message.id).collect())
}

/// Erases in the database, 1,000 messages in a transaction.
async fn erase(
    store: &dyn Store,
    target: &ErasureTarget,
    by: &By,
) -> Result<Vec<ErasureResult>, Failure> {
    let mut results: Vec<ErasureResult> = Vec::new();
    match target {
        ErasureTarget::Ids(ids) => {
            for ids in ids.chunks(PAGE_ENTRIES_MAX as usize) {
                let target = ErasureTarget::Ids(ids.to_vec());
                results.extend(store.erase(&target, by).await?);
            }
        }
        ErasureTarget::Key { .. } => results = store.erase(target, by).await?,
        ErasureTarget::Correlation { id, .. } => loop {
            let target = ErasureTarget::Correlation {
                id: id.clone(),
                after: results.last().map(|last| last.id),
            };
            let page = store.erase(&target, by).await?;
            let is_last = page.len() < PAGE_ENTRIES_MAX as usize;
            results.extend(page);
            if is_last {
                break;
            }
        },
    }
    Ok(results)
}

/// What is to be erased in the archive too: all but what the database refused.
fn in_archive(results: &[ErasureResult], mut archived: BTreeSet<MessageId>) -> BTreeSet<MessageId> {
    for result in results {
        if is_refused(result.answer) {
            archived.remove(&result.id);
        } else {
            archived.insert(result.id);
        }
    }
    archived
}

/// Whether a message stays as it is because it must.
fn is_refused(answer: ErasureAnswer) -> bool {
    use ErasureAnswer::{AppQueue, BlocksGroup, Needed, NotFinal};
    matches!(answer, NotFinal { .. } | BlocksGroup | Needed | AppQueue)
}

async fn erase_archive(
    archive: &Archive,
    ids: BTreeSet<MessageId>,
    by: &By,
) -> Result<Vec<MessageId>, Failure> {
    let by = ErasedBy {
        at: Timestamp::now(),
        actor: by.actor.clone(),
        reason: by.reason.clone(),
    };
    for _ in 1..LOCKED_TRIES {
        match archive.erase(&ids, &by) {
            Err(consign_archive::Error::Locked { .. }) => sleep(LOCKED_PAUSE).await,
            erased => return erased.map_err(|error| half_done(failed(error))),
        }
    }
    archive
        .erase(&ids, &by)
        .map_err(|error| half_done(failed(error)))
}

fn half_done(failure: Failure) -> Failure {
    let again = |text| format!("{text}. The database is erased, the archive is not: run it again");
    failure.map_message(again)
}

fn report(out: Output, results: &[ErasureResult], cleared: &[MessageId]) -> Result<Exit, Failure> {
    let is_cleared = |id: MessageId| cleared.contains(&id);
    let is_missing = |result: &&ErasureResult| {
        use ErasureAnswer::{Departed, NoSuchMessage};
        matches!(result.answer, Departed | NoSuchMessage) && !is_cleared(result.id)
    };
    let exit = if results.iter().any(|result| is_missing(&result)) {
        Exit::NotFound
    } else if results.iter().any(|result| is_refused(result.answer)) {
        Exit::Wrong
    } else if results.is_empty() && cleared.is_empty() {
        Exit::NotFound
    } else {
        Exit::Fine
    };
    if out.is_json() {
        let answer = json!({"preview": false, "messages": results, "archive": cleared});
        out.json(&answer)?;
        return Ok(exit);
    }
    for result in results {
        out.line(format_args!("{}: {}", result.id, sentence(result.answer)))?;
    }
    for id in cleared {
        out.line(format_args!("{id}: erased in the archive"))?;
    }
    if results.is_empty() && cleared.is_empty() {
        out.note("no messages match")?;
    }
    Ok(exit)
}

fn sentence(answer: ErasureAnswer) -> String {
    match answer {
        ErasureAnswer::Erased => "erased".to_owned(),
        ErasureAnswer::AlreadyErased => "was erased before".to_owned(),
        ErasureAnswer::NotFinal { state } => {
            format!("not changed: {state}; only delivered, dead and discarded ones can be erased")
        }
        ErasureAnswer::BlocksGroup => {
            "not changed: dead, and its group waits for it; requeue or discard it, then erase it"
                .to_owned()
        }
        ErasureAnswer::Needed => {
            "not changed: the app of its queue needs the content until something unfinished ends"
                .to_owned()
        }
        ErasureAnswer::AppQueue => {
            "not changed: its queue belongs to an app that cannot erase or is off here, and has \
             copies of the content"
                .to_owned()
        }
        ErasureAnswer::Departed => "has left the database".to_owned(),
        ErasureAnswer::NoSuchMessage => "is not in the database".to_owned(),
    }
}
