//! What a shell is told while a command line is typed: names of queues, ids of messages.
//!
//! Never makes a database, prints no error, and gives up soon: an empty list is an answer.

use std::{ffi::OsStr, time::Duration};

use clap::{Arg, Command};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate},
};
use consign_app::Registry;
use consign_kernel::{Filter, MessageSummary, PAGE_ENTRIES_MAX, StateKind, Store};

use crate::{
    config::{Config, EXAMPLE, Sources},
    context::Context,
    failure::Failure,
};

/// The variable by which a shell's script asks. Not `CONSIGN_…`, which are settings.
pub(crate) const VARIABLE: &str = "_CONSIGN_COMPLETE";

/// How long a shell waits for names at most.
const PATIENCE: Duration = Duration::from_millis(800);
/// Messages that are offered: the newest.
const OFFERED: u32 = 50;

/// Answers a shell's script and ends the process, if one has asked.
pub(crate) fn answer(registry: &'static Registry) {
    CompleteEnv::with_factory(|| completed(super::command(registry), registry))
        .var(VARIABLE)
        .complete();
}

/// The command with completers at every argument that names a queue or a message.
fn completed(command: Command, registry: &'static Registry) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|argument| with_completer(argument, &name, registry));
    command.mut_subcommands(|it| completed(it, registry))
}

fn with_completer(argument: Arg, command: &str, registry: &'static Registry) -> Arg {
    match (argument.get_id().as_str(), command) {
        ("queue" | "queues", _) | ("name", "show" | "set" | "pause" | "resume" | "queues") => {
            argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
                starting(typed, asked(registry, queues))
            }))
        }
        ("id" | "ids" | "before", _) => {
            let state = match command {
                "requeue" => Some(StateKind::Dead),
                "unhold" | "resolve" => Some(StateKind::Held),
                "hold" => Some(StateKind::Ready),
                _ => None,
            };
            argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
                let found = asked(registry, async move |store| messages(store, state).await);
                starting(typed, found)
            }))
        }
        _ => argument,
    }
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

async fn messages(
    store: &dyn Store,
    state: Option<StateKind>,
) -> Result<Vec<CompletionCandidate>, Failure> {
    let filter = Filter {
        state,
        ..Filter::default()
    };
    let page = store.list(&filter, None, OFFERED).await?;
    let candidate = |listed: MessageSummary| {
        let mut help = format!("{}, {}", listed.queue, listed.state);
        if let Some(code) = listed.code {
            help.push_str(&format!(", {}", crate::output::plain(&code)));
        }
        CompletionCandidate::new(listed.id.to_string()).help(Some(help.into()))
    };
    Ok(page.items.into_iter().map(candidate).collect())
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
