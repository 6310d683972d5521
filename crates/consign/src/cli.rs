//! The command line.

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand, error::ErrorKind};

use crate::{
    commands::{
        completions, config, demo, doctor, enqueue, explain, hold, leases, ls, mcp, memory,
        migrate, orders, pause, payments, queues, reconcile, redrive, report, requeue, resolve,
        scm, serve, show, token, verify, work,
    },
    config::Sources,
    context::Context,
    failure::{Exit, Failure},
};

const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  something is wrong: doctor found something, or a message could not be moved
  2  the command line or the configuration does not make sense
  3  the input was refused: unknown queue, key conflict, bad JSON
  4  there is no such message, order, payment, redrive or repository
  5  the database cannot be used: not reachable, not migrated, not permitted
  130, 143  serve and work: told twice to stop (SIGINT, SIGTERM), stopped at once";

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

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve the HTTP API and deliver the messages of every queue that has a sink
    Serve(serve::Serve),
    /// Deliver only, without an API
    Work(work::Work),
    /// Bring the database to this program's schema, or look at it
    Migrate(migrate::Migrate),
    /// Enqueue one message, or JSON lines from standard input
    Enqueue(enqueue::Enqueue),
    /// List messages, newest first
    Ls(ls::Ls),
    /// Show a message with its attempts and what was done to it by hand
    Show(show::Show),
    /// Say why a message is where it is, and what to do
    Explain(explain::Explain),
    /// List leases: who holds what, and until when
    Leases(leases::Leases),
    /// List queues with their counts; show or set one
    Queues(queues::Queues),
    /// Give dead messages a fresh set of tries
    Requeue(requeue::Requeue),
    /// Requeue dead messages by filter, little by little
    Redrive(redrive::RedriveCommand),
    /// List, show, requeue and purge orders
    Orders(orders::OrdersCommand),
    /// List, show, repair and move payments; reconcile and import them
    Payments(payments::PaymentsCommand),
    /// List and show memories that were put off; store and search as agents do
    Memory(memory::MemoryCommand),
    /// Read repositories into the database, and make memories of their changes
    Scm(scm::ScmCommand),
    /// Compare the outbox of memories with its audits
    Reconcile(reconcile::Reconcile),
    /// Show the reliability report of the gateway of memories
    Report(report::Report),
    /// Serve the gateway of memories to one agent, on standard input and output
    Mcp(mcp::Mcp),
    /// Try the gateway of memories for real, an outage of the memory server included
    Verify(verify::Verify),
    /// Park messages that are ready or waiting
    Hold(hold::Hold),
    /// Put held messages back
    Unhold(hold::Unhold),
    /// Record what became of held messages, as you found out
    Resolve(resolve::Resolve),
    /// Stop claims from a queue; leases in flight may finish
    Pause(pause::Pause),
    /// Let a queue be claimed again
    Resume(pause::Resume),
    /// Check every invariant of the database
    Doctor(doctor::Doctor),
    /// Show, check or print settings
    Config(config::ConfigCommand),
    /// Make tokens for callers of the HTTP API
    Token(token::TokenCommand),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// See the guarantees at work on a throw-away database
    Demo(demo::Demo),
}

impl Cli {
    fn sources(&self) -> Result<Sources, Failure> {
        let named = |name| std::env::var_os(name).filter(|text: &OsString| !text.is_empty());
        let variable = || named("CONSIGN_CONFIG").map(PathBuf::from);
        let mut sources = Sources::of_process(self.config.clone().or_else(variable));
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
        Ok(sources)
    }

    pub(crate) async fn run(self) -> Result<Exit, Failure> {
        let context = Context::new(self.json, self.sources()?);
        let ended = self.dispatch(&context).await;
        ended.map_err(|failure| context.with_queue_of_file(failure))
    }

    async fn dispatch(self, context: &Context) -> Result<Exit, Failure> {
        // Boxed, so that the dispatcher's future is not as large as the largest command's.
        match self.command {
            Command::Serve(command) => Box::pin(command.run(context)).await,
            Command::Work(command) => Box::pin(command.run(context)).await,
            Command::Migrate(command) => Box::pin(command.run(context)).await,
            Command::Enqueue(command) => Box::pin(command.run(context)).await,
            Command::Ls(command) => Box::pin(command.run(context)).await,
            Command::Show(command) => Box::pin(command.run(context)).await,
            Command::Explain(command) => Box::pin(command.run(context)).await,
            Command::Leases(command) => Box::pin(command.run(context)).await,
            Command::Queues(command) => Box::pin(command.run(context)).await,
            Command::Requeue(command) => Box::pin(command.run(context)).await,
            Command::Redrive(command) => Box::pin(command.run(context)).await,
            Command::Orders(command) => Box::pin(command.run(context)).await,
            Command::Payments(command) => Box::pin(command.run(context)).await,
            Command::Memory(command) => Box::pin(command.run(context)).await,
            Command::Scm(command) => Box::pin(command.run(context)).await,
            Command::Mcp(command) => Box::pin(command.run(context)).await,
            Command::Reconcile(command) => Box::pin(command.run(context)).await,
            Command::Report(command) => Box::pin(command.run(context)).await,
            Command::Verify(command) => Box::pin(command.run(context)).await,
            Command::Hold(command) => Box::pin(command.run(context)).await,
            Command::Unhold(command) => Box::pin(command.run(context)).await,
            Command::Resolve(command) => Box::pin(command.run(context)).await,
            Command::Pause(command) => Box::pin(command.run(context)).await,
            Command::Resume(command) => Box::pin(command.run(context)).await,
            Command::Doctor(command) => Box::pin(command.run(context)).await,
            Command::Config(command) => Box::pin(command.run(context)).await,
            Command::Token(command) => command.run(context),
            Command::Completions(command) => command.run(),
            Command::Demo(command) => Box::pin(command.run(context)).await,
        }
    }
}

/// Prints help where help was asked for, and otherwise what is wrong with the command line.
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
        return Failure::usage(text.trim_start_matches("error: ").trim()).report(true);
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

/// What the standard library says of a number that is none, in words.
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
