//! The command line.

pub(crate) mod complete;
mod groups;

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{
    ArgMatches, ColorChoice as ClapColors, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::ErrorKind,
};
use consign_app::{
    App, Registry,
    color::{ColorChoice, Colors},
};

use crate::{
    commands::{
        close, completions, config, dead, demo, doctor, enqueue, erase, explain, hold, leases, ls,
        man, migrate, pause, problems, queues, redrive, requeue, resolve, retention, schedules,
        serve, show, tail, token, work,
    },
    config::{EXAMPLE, Sources},
    context::Context,
    failure::{Exit, Failure},
};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  doctor has findings, or a message could not be moved
  2  the command line or the configuration is invalid
  3  the input was refused: unknown queue, key conflict, bad JSON
  4  the message, redrive or schedule does not exist, or nothing of this name in an app
  5  the database cannot be used: not reachable, not migrated, not permitted
  130, 143  serve and work: a second SIGINT or SIGTERM stopped the process at once";

/// Shown below a command's own options.
const GLOBAL: &str = "Everywhere";

/// Transactional outbox: consign a message in your own transaction, have it delivered at least
/// once, and see every attempt.
#[derive(Parser, Debug)]
#[command(name = "consign", version, after_help = EXIT_CODES, propagate_version = true)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    /// Print JSON; errors are JSON on standard error
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,

    /// sqlite:PATH, a path, or postgres://… [default: $CONSIGN_DATABASE_URL, $DATABASE_URL, the
    /// configuration, then sqlite:consign.db]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "URL")]
    database: Option<String>,

    /// The configuration [default: $CONSIGN_CONFIG, then consign.toml if it is there]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "FILE")]
    config: Option<PathBuf>,

    /// An app to install and to serve; may be repeated [default: `apps` of the configuration]
    #[arg(long = "app", global = true, help_heading = GLOBAL, value_name = "NAME")]
    apps: Vec<String>,

    /// Colours: always, never, or auto: on a terminal unless NO_COLOR is set
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    color: ColorChoice,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve the HTTP API and deliver the messages of every queue that has a sink
    Serve(serve::Serve),
    /// Deliver only, without an API
    Work(work::Work),
    /// Migrate the database to this program's schema, or show its version
    Migrate(migrate::Migrate),
    /// Enqueue one message, or JSON lines from standard input
    Enqueue(enqueue::Enqueue),
    /// List messages, newest first
    Ls(ls::Ls),
    /// Follow a queue: its messages as they are enqueued, and their attempts
    Tail(tail::Tail),
    /// Group dead messages by queue, code and destination
    Dead(dead::Dead),
    /// Show a message with its attempts and its audit entries
    Show(show::Show),
    /// Explain the state of a message and what to do about it
    Explain(explain::Explain),
    /// Show what is wrong now, the worst first; acknowledge it for a time
    Problems(problems::ProblemsCommand),
    /// List leases: who holds what, and until when
    Leases(leases::Leases),
    /// List queues with their counts; show or set one
    Queues(queues::Queues),
    /// Give dead messages a fresh set of tries
    Requeue(requeue::Requeue),
    /// Requeue dead messages by filter, at a limited rate
    Redrive(redrive::RedriveCommand),
    /// List schedules; add, change, run or preview one
    Schedules(schedules::Schedules),
    /// Hold messages that are ready or waiting
    Hold(hold::Hold),
    /// Put held messages back
    Unhold(hold::Unhold),
    /// Record the outcome of held messages that you determined
    Resolve(resolve::Resolve),
    /// Stop claims from a queue; leases in flight may finish
    Pause(pause::Pause),
    /// Resume claims from a paused queue
    Resume(pause::Resume),
    /// Discard dead and held messages: final, and never delivered
    Discard(close::Discard),
    /// Cancel ready and waiting messages before they are sent
    Cancel(close::Cancel),
    /// Close the head of a group of an ordered queue, so that the group goes on
    Skip(close::Skip),
    /// Erase the content of delivered, dead and discarded messages
    Erase(erase::Erase),
    /// Show what is kept and what may leave; let it leave
    Retention(retention::RetentionCommand),
    /// Check every invariant of the database
    Doctor(doctor::Doctor),
    /// Show, check or print settings
    Config(config::ConfigCommand),
    /// Create tokens for callers of the HTTP API
    Token(token::TokenCommand),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Write manual pages
    Man(man::Man),
    /// Show the guarantees on a temporary database
    Demo(demo::Demo),
}

/// What was typed: a command of the engine, or one of an app.
#[derive(Debug)]
pub(crate) struct CommandLine {
    registry: &'static Registry,
    globals: Cli,
    app: Option<(&'static dyn App, String, ArgMatches)>,
}

/// The whole command line, the apps' commands included.
pub(crate) fn command(registry: &Registry) -> clap::Command {
    let commands = registry.apps.iter().flat_map(|app| app.commands());
    groups::grouped(Cli::command().subcommands(commands), registry)
}

impl CommandLine {
    /// Reads the process's arguments.
    pub(crate) fn parse(registry: &'static Registry) -> Result<Self, clap::Error> {
        Self::from_arguments(registry, std::env::args_os())
    }

    pub(crate) fn from_arguments(
        registry: &'static Registry,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let command = command(registry)
            .color(clap_colors(&arguments))
            .subcommand_required(true)
            .arg_required_else_help(true);
        let mut matches = command.try_get_matches_from(arguments)?;
        let Some((name, _)) = matches.subcommand() else {
            unreachable!("invariant: a command is required");
        };
        let is_its = |app: &&&'static dyn App| {
            let mut commands = app.commands().into_iter();
            commands.any(|command| command.get_name() == name)
        };
        let Some(app) = registry.apps.iter().find(is_its).copied() else {
            let globals = Cli::from_arg_matches(&matches)?;
            let app = None;
            return Ok(Self {
                registry,
                globals,
                app,
            });
        };
        let Some((name, arguments)) = matches.remove_subcommand() else {
            unreachable!("invariant: a command is required");
        };
        let globals = Cli::from_arg_matches(&matches)?;
        let app = Some((app, name, arguments));
        Ok(Self {
            registry,
            globals,
            app,
        })
    }

    pub(crate) fn is_json(&self) -> bool {
        self.globals.json
    }

    pub(crate) fn colors(&self) -> Colors {
        self.globals.color.colors()
    }

    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let Self {
            registry,
            globals,
            app,
        } = self;
        let telemetry = crate::telemetry::start_for_a_command;
        let context = Context::new(globals.json, globals.sources(registry)?, telemetry);
        let context = context.with_colors(globals.color.colors());
        let ended = match (app, globals.command) {
            (Some((app, name, arguments)), _) => {
                let context = context.clone().for_app(app);
                app.run(&name, &arguments, &context).await
            }
            (None, Some(command)) => command.run(&context).await,
            (None, None) => unreachable!("invariant: a command is required"),
        };
        ended.map_err(|failure| context.with_queue_of_file(failure))
    }
}

impl Cli {
    fn sources(&self, registry: &'static Registry) -> Result<Sources, Failure> {
        let named = |name| std::env::var_os(name).filter(|text: &OsString| !text.is_empty());
        let variable = || named("CONSIGN_CONFIG").map(PathBuf::from);
        let file = self.config.clone().or_else(variable);
        let mut sources = Sources::of_process(registry, EXAMPLE, file);
        if let Some(url) = &self.database {
            if url.is_empty() {
                // A variable of a script that is not set must not lead to another database.
                return Err(Failure::usage(
                    "--database: is empty; leave it out for the default",
                ));
            }
            let flag = ("database.url", url.as_str().into(), "--database");
            sources.flags.push(flag);
        }
        if !self.apps.is_empty() {
            sources
                .flags
                .push(("apps", self.apps.clone().into(), "--app"));
        }
        Ok(sources)
    }
}

impl Command {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        // Boxed, so that the dispatcher's future is not as large as the largest command's.
        match self {
            Self::Serve(command) => Box::pin(command.run(context)).await,
            Self::Work(command) => Box::pin(command.run(context)).await,
            Self::Migrate(command) => Box::pin(command.run(context)).await,
            Self::Enqueue(command) => Box::pin(command.run(context)).await,
            Self::Ls(command) => Box::pin(command.run(context)).await,
            Self::Tail(command) => Box::pin(command.run(context)).await,
            Self::Dead(command) => Box::pin(command.run(context)).await,
            Self::Show(command) => Box::pin(command.run(context)).await,
            Self::Explain(command) => Box::pin(command.run(context)).await,
            Self::Problems(command) => Box::pin(command.run(context)).await,
            Self::Leases(command) => Box::pin(command.run(context)).await,
            Self::Queues(command) => Box::pin(command.run(context)).await,
            Self::Requeue(command) => Box::pin(command.run(context)).await,
            Self::Redrive(command) => Box::pin(command.run(context)).await,
            Self::Schedules(command) => Box::pin(command.run(context)).await,
            Self::Hold(command) => Box::pin(command.run(context)).await,
            Self::Unhold(command) => Box::pin(command.run(context)).await,
            Self::Resolve(command) => Box::pin(command.run(context)).await,
            Self::Discard(command) => Box::pin(command.run(context)).await,
            Self::Cancel(command) => Box::pin(command.run(context)).await,
            Self::Skip(command) => Box::pin(command.run(context)).await,
            Self::Pause(command) => Box::pin(command.run(context)).await,
            Self::Resume(command) => Box::pin(command.run(context)).await,
            Self::Erase(command) => Box::pin(command.run(context)).await,
            Self::Retention(command) => Box::pin(command.run(context)).await,
            Self::Doctor(command) => Box::pin(command.run(context)).await,
            Self::Config(command) => Box::pin(command.run(context)).await,
            Self::Token(command) => command.run(context),
            Self::Completions(command) => command.run(context),
            Self::Man(command) => command.run(context),
            Self::Demo(command) => Box::pin(command.run(context)).await,
        }
    }
}

/// The colours of help and of what is wrong with a command line, before that is read.
fn clap_colors(arguments: &[OsString]) -> ClapColors {
    let word = arguments.iter().enumerate().find_map(|(place, argument)| {
        match argument.to_str()?.strip_prefix("--color")? {
            "" => arguments.get(place + 1)?.to_str(),
            rest => rest.strip_prefix('='),
        }
    });
    match word {
        Some("always") => ClapColors::Always,
        Some("never") => ClapColors::Never,
        _ => ClapColors::Auto,
    }
}

/// Prints the requested help, or what is wrong with the command line.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let is_json = std::env::args_os().any(|argument| argument == "--json");
    if asked_for {
        // A reader that went away is no error; see `Failure::BrokenPipe`.
        return error
            .print()
            .map_or(Exit::Fine.into(), |()| Exit::Fine.into());
    }
    let text = plainer(&error.to_string());
    if is_json {
        return Failure::usage(text.trim_start_matches("error: ").trim())
            .report(true, Colors::default());
    }
    if text != error.to_string() {
        return match write!(std::io::stderr(), "{text}") {
            // With standard error closed the exit code is all there is.
            Ok(()) | Err(_) => Exit::Usage.into(),
        };
    }
    error
        .print()
        .map_or(Exit::Usage.into(), |()| Exit::Usage.into())
}

/// Plain texts for the standard library's errors about numbers.
fn plainer(text: &str) -> String {
    [
        ("invalid digit found in string", "expected a whole number"),
        (
            "number too large to fit in target type",
            "the number is too large",
        ),
        (
            "number too small to fit in target type",
            "the number is too small",
        ),
        (
            "cannot parse integer from empty string",
            "expected a whole number",
        ),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests;
