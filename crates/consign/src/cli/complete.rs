//! What a shell gets while a command line is typed: names of queues and schedules, groups, ids.
//!
//! Never makes a database, prints no error, and gives up soon: an empty list is an answer.

use std::{collections::BTreeMap, ffi::OsStr, time::Duration};

use clap::Command;
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate},
};
use consign_app::Registry;
use consign_kernel::{
    Filter, MessageSummary, PAGE_ENTRIES_MAX, QueueName, Redrive, Schedule, StateKind, Store,
};

use crate::{
    config::{Config, EXAMPLE, Sources},
    context::Context,
    failure::Failure,
    output::plain,
};

/// The variable by which a shell's script asks. Not `CONSIGN_…`, which are settings.
pub(crate) const VARIABLE: &str = "_CONSIGN_COMPLETE";

/// How long a shell waits for names at most.
const PATIENCE: Duration = Duration::from_millis(800);
/// Messages of a state and redrives that are offered: the newest.
const OFFERED: u32 = 50;

/// Answers a shell's script and ends the process, if one has asked.
pub(crate) fn answer(registry: &'static Registry) {
    CompleteEnv::with_factory(|| completed(super::command(registry), registry))
        .var(VARIABLE)
        .complete();
}

/// What completes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Queues,
    Schedules,
    Redrives,
    /// Groups with unfinished or dead messages, of the queue that was typed.
    Groups,
    /// Messages in one of these states, or all.
    Messages(&'static [StateKind]),
}

/// What completes an argument of the command that these names lead to.
fn source(path: &[&str], argument: &str) -> Option<Source> {
    Some(match (path, argument) {
        (_, "queue" | "queues" | "alert_queue") => Source::Queues,
        (["queues", ..], "name" | "after") => Source::Queues,
        (["schedules", ..], "name" | "after") => Source::Schedules,
        (["redrive", ..], "id") => Source::Redrives,
        (["skip"], "group") => Source::Groups,
        (_, "id" | "ids" | "before") => Source::Messages(movable(path)),
        _ => return None,
    })
}

/// States that a command changes; none: it takes any message.
fn movable(path: &[&str]) -> &'static [StateKind] {
    match path {
        ["requeue"] => &[StateKind::Dead],
        ["discard"] => &[StateKind::Dead, StateKind::Held],
        ["cancel" | "hold"] => &[StateKind::Ready, StateKind::Waiting],
        ["unhold" | "resolve"] => &[StateKind::Held],
        ["erase"] => &[StateKind::Delivered, StateKind::Dead, StateKind::Discarded],
        _ => &[],
    }
}

/// The command with completers at every argument that names something in the database.
fn completed(command: Command, registry: &'static Registry) -> Command {
    below(command, Vec::new(), registry)
}

fn below(command: Command, path: Vec<String>, registry: &'static Registry) -> Command {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let command = command.mut_args(|argument| {
        let completer = |source| completer(source, registry);
        match source(&names, argument.get_id().as_str()) {
            Some(source) => argument.add(completer(source)),
            None => argument,
        }
    });
    command.mut_subcommands(|it| {
        let name = it.get_name().to_owned();
        let path = path.iter().cloned().chain([name]).collect();
        below(it, path, registry)
    })
}

fn completer(source: Source, registry: &'static Registry) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let found = asked(registry, async move |store| match source {
            Source::Queues => queues(store).await,
            Source::Schedules => schedules(store).await,
            Source::Redrives => redrives(store).await,
            Source::Groups => groups(store).await,
            Source::Messages(states) => messages(store, states).await,
        });
        starting(typed, found)
    })
}

fn starting(typed: &OsStr, mut candidates: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    candidates.retain(|it| it.get_value().to_string_lossy().starts_with(&*typed));
    candidates
}

async fn queues(store: &dyn Store) -> Result<Vec<CompletionCandidate>, Failure> {
    let queues = store.queues(None, PAGE_ENTRIES_MAX).await?;
    let candidate = |(queue, counts): (consign_kernel::Queue, consign_kernel::Counts)| {
        let help = format!("{} unfinished, {} dead", counts.unfinished(), counts.dead);
        CompletionCandidate::new(queue.name.to_string()).help(Some(help.into()))
    };
    Ok(queues.into_iter().map(candidate).collect())
}

async fn schedules(store: &dyn Store) -> Result<Vec<CompletionCandidate>, Failure> {
    let schedules = store.schedules(None, PAGE_ENTRIES_MAX).await?.into_iter();
    let candidate = |schedule: Schedule| {
        let help = format!("{}, {}", schedule.plan.cron, schedule.plan.queue);
        CompletionCandidate::new(schedule.name.to_string()).help(Some(help.into()))
    };
    Ok(schedules.map(candidate).collect())
}

async fn redrives(store: &dyn Store) -> Result<Vec<CompletionCandidate>, Failure> {
    let redrives = store.redrives(OFFERED).await?.into_iter();
    let candidate = |redrive: Redrive| {
        let action = redrive.plan.action;
        let help = format!("{action}, {}: {}", redrive.state, plain(&redrive.by.reason));
        CompletionCandidate::new(redrive.id.to_string()).help(Some(help.into()))
    };
    Ok(redrives.map(candidate).collect())
}

/// Groups of the queue that stands behind `skip`, with the state of their heads.
async fn groups(store: &dyn Store) -> Result<Vec<CompletionCandidate>, Failure> {
    let typed: Vec<String> = std::env::args().collect();
    let behind = typed.iter().skip_while(|word| *word != "skip");
    let words: Vec<QueueName> = behind.filter_map(|word| word.parse().ok()).collect();
    let mut heads = BTreeMap::new();
    for (queue, _) in store.queues(None, PAGE_ENTRIES_MAX).await? {
        if !words.contains(&queue.name) {
            continue;
        }
        for state in [StateKind::Dead, StateKind::Held, StateKind::Ready] {
            for listed in newest(store, Some(&queue.name), Some(state)).await? {
                if let Some(group) = listed.group {
                    heads.entry(group).or_insert(state);
                }
            }
        }
    }
    let candidate = |(group, state): (String, StateKind)| {
        CompletionCandidate::new(group).help(Some(state.to_string().into()))
    };
    Ok(heads.into_iter().map(candidate).collect())
}

async fn messages(
    store: &dyn Store,
    states: &[StateKind],
) -> Result<Vec<CompletionCandidate>, Failure> {
    let mut found = Vec::new();
    for state in states {
        found.extend(newest(store, None, Some(*state)).await?);
    }
    if states.is_empty() {
        found = newest(store, None, None).await?;
    }
    let candidate = |listed: MessageSummary| {
        let mut help = format!("{}, {}", listed.queue, listed.state);
        if let Some(code) = listed.code {
            help.push_str(&format!(", {}", plain(&code)));
        }
        CompletionCandidate::new(listed.id.to_string()).help(Some(help.into()))
    };
    Ok(found.into_iter().map(candidate).collect())
}

async fn newest(
    store: &dyn Store,
    queue: Option<&QueueName>,
    state: Option<StateKind>,
) -> Result<Vec<MessageSummary>, Failure> {
    let filter = Filter {
        queue: queue.cloned(),
        state,
        ..Filter::default()
    };
    Ok(store.list(&filter, None, OFFERED).await?.items)
}

/// What the database of the typed command line answers in time, or nothing.
fn asked(
    registry: &'static Registry,
    question: impl AsyncFnOnce(&dyn Store) -> Result<Vec<CompletionCandidate>, Failure>,
) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let found = runtime.block_on(async {
        let asking = async {
            let context = typed_context(registry)?;
            let store = context.store().await?;
            question(&*store).await
        };
        tokio::time::timeout(PATIENCE, asking).await
    });
    // A connection that hangs must not keep the shell waiting.
    runtime.shutdown_background();
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// The value of an option among the words of a shell; bash cuts words at `=`, `:` and `@`.
fn typed_value(typed: &[String], flag: &str) -> Option<String> {
    let is_cut = |word: &String| !word.is_empty() && word.chars().all(|c| "=:@".contains(c));
    let place = typed.iter().position(|word| {
        let rest = word.strip_prefix(flag);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })?;
    if let Some((_, value)) = typed[place].split_once('=') {
        return Some(value.to_owned());
    }
    let mut words = typed[place + 1..].iter().skip_while(|word| *word == "=");
    let mut value = words.next()?.clone();
    let mut words = words.peekable();
    while let Some(cut) = words.next_if(|word| is_cut(word)) {
        value.push_str(cut);
        value.extend(words.next().map(String::as_str));
    }
    Some(value)
}

/// The database and the configuration that the typed command line names, or the defaults.
fn typed_context(registry: &'static Registry) -> Result<Context, Failure> {
    let typed: Vec<String> = std::env::args().collect();
    let named = |flag| typed_value(&typed, flag);
    let variable = std::env::var_os("CONSIGN_CONFIG").filter(|text| !text.is_empty());
    let file = named("--config")
        .map(Into::into)
        .or(variable.map(Into::into));
    let mut sources = Sources::of_process(registry, EXAMPLE, file);
    if let Some(url) = named("--database") {
        sources
            .flags
            .push(("database.url", url.into(), "--database"));
    }
    let nothing: fn(&Config) -> Result<Box<dyn consign_app::Background>, Failure> =
        |_| Err(Failure::usage("a completion starts no telemetry"));
    Ok(Context::new(false, sources, nothing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_is_completed_by_what_it_names() {
        use StateKind::{Dead, Delivered, Discarded, Held, Ready, Waiting};
        let messages = |states| Some(Source::Messages(states));
        for (path, argument, expected) in [
            (&["ls"][..], "queue", Some(Source::Queues)),
            (&["work"], "queues", Some(Source::Queues)),
            (&["queues", "set"], "alert_queue", Some(Source::Queues)),
            (&["queues", "show"], "name", Some(Source::Queues)),
            (&["schedules"], "after", Some(Source::Schedules)),
            (&["schedules", "show"], "name", Some(Source::Schedules)),
            (&["schedules", "pause"], "name", Some(Source::Schedules)),
            (&["schedules", "resume"], "name", Some(Source::Schedules)),
            (&["schedules", "add"], "queue", Some(Source::Queues)),
            (&["redrive", "show"], "id", Some(Source::Redrives)),
            (&["redrive", "stop"], "id", Some(Source::Redrives)),
            (&["redrive", "resume"], "id", Some(Source::Redrives)),
            (&["skip"], "queue", Some(Source::Queues)),
            (&["skip"], "group", Some(Source::Groups)),
            (&["ls"], "group", None),
            (&["token", "create"], "name", None),
            (&["explain"], "id", messages(&[])),
            (&["requeue"], "ids", messages(&[Dead])),
            (&["discard"], "ids", messages(&[Dead, Held])),
            (&["cancel"], "ids", messages(&[Ready, Waiting])),
            (&["hold"], "ids", messages(&[Ready, Waiting])),
            (&["unhold"], "ids", messages(&[Held])),
            (&["resolve"], "ids", messages(&[Held])),
            (&["erase"], "ids", messages(&[Delivered, Dead, Discarded])),
        ] {
            assert_eq!(source(path, argument), expected, "{path:?} {argument}");
        }
    }

    /// The table above names arguments that there are.
    #[test]
    fn what_is_completed_exists() {
        let command = super::super::command(&crate::registry(&[]));
        for (path, argument) in [
            (&["queues", "set"][..], "alert_queue"),
            (&["schedules", "pause"], "name"),
            (&["redrive", "stop"], "id"),
            (&["skip"], "group"),
            (&["discard"], "ids"),
            (&["erase"], "ids"),
        ] {
            let found = path
                .iter()
                .try_fold(&command, |it, name| it.find_subcommand(name));
            let found = found.unwrap_or_else(|| panic!("{path:?}"));
            let has = found.get_arguments().any(|it| it.get_id() == argument);
            assert!(has, "{path:?} {argument}");
        }
    }

    #[test]
    fn a_value_is_read_however_the_shell_cuts_it() {
        for (line, expected) in [
            (
                "consign ls --database sqlite:a.db --queue",
                Some("sqlite:a.db"),
            ),
            ("consign ls --database=sqlite:a.db", Some("sqlite:a.db")),
            ("consign --database sqlite : a.db ls", Some("sqlite:a.db")),
            (
                "consign --database = postgres : //u : p @ h : 5/d ls",
                Some("postgres://u:p@h:5/d"),
            ),
            ("consign ls --databases x", None),
            ("consign ls --database", None),
        ] {
            let typed: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(
                typed_value(&typed, "--database").as_deref(),
                expected,
                "{line}"
            );
        }
    }
}
