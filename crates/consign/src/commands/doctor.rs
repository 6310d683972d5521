//! `consign doctor`: every invariant, checked.

mod files;
mod growth;

use clap::Args;
use consign_kernel::{Error, Finding, NOT_CHECKED};
use serde_json::json;

use crate::{
    config::{Flags, Settings},
    context::Context,
    database::Database,
    failure::{Exit, Failure},
    output::{Output, count, plain},
    progress::Progress,
};

/// What doctor calls damage of the file itself.
const FILE: &str = "file";

/// Check every invariant of the database; exit code 1 with findings, 5 when the login may not read
/// every table.
#[derive(Args, Debug)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut hints = hints(context)?;
        let findings = match context.open().await {
            Ok(opened) => {
                hints.extend(growth::hints(context, &opened).await?);
                examine(context, &opened).await?
            }
            Err(failure) if failure.code() == Some("corrupt") => vec![unreadable(&failure)],
            Err(failure) => return Err(failure),
        };
        if context.out.is_json() {
            let mut answer = json!({"findings": findings});
            if !hints.is_empty() {
                answer["hints"] = json!(hints);
            }
            context.out.json(&answer)?;
        } else {
            print(context.out, &findings)?;
            for hint in hints {
                context.out.line(format_args!("hint: {hint}"))?;
            }
        }
        Ok(if findings.is_empty() {
            Exit::Fine
        } else if findings.iter().all(is_not_checked) {
            Exit::Unavailable
        } else {
            Exit::Wrong
        })
    }
}

fn is_not_checked(finding: &Finding) -> bool {
    finding.code == NOT_CHECKED
}

async fn examine(context: &Context, opened: &Database) -> Result<Vec<Finding>, Failure> {
    let _progress = Progress::busy("checking every invariant", context.out.is_json());
    let mut findings = opened.store.doctor().await?;
    // What a damaged file holds is not to be relied on.
    if !findings.iter().any(|finding| finding.code == FILE) {
        match consign_schedule::overdue(&*opened.store).await {
            Ok(overdue) => findings.extend(overdue),
            // Named above, with what else this login may not read.
            Err(Error::Forbidden { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let config = context.config(Flags::new())?;
        for app in config.apps() {
            app.doctor(&config, opened, &mut findings).await?;
        }
    }
    Ok(findings)
}

/// A file that is too damaged to be opened.
fn unreadable(failure: &Failure) -> Finding {
    Finding {
        code: FILE.to_owned(),
        what: failure.message().to_owned(),
        remedy: "stop consign, copy the file and its -wal aside, and restore the last backup"
            .to_owned(),
        ids: Vec::new(),
    }
}

/// What could be set up better. Nothing is wrong with the database, so the exit code is the same.
fn hints(context: &Context) -> Result<Vec<String>, Failure> {
    let config = context.config(Flags::new())?;
    let server = Settings::of(&config)?.server;
    let has_bare_sessions = !server.tokens.is_empty() && server.session_key.is_none();
    let hint = "server.session_key is not set: a reader of the hashes in server.tokens can forge \
                a session of the dashboard";
    let hints = has_bare_sessions.then(|| hint.to_owned());
    let open = files::readable_by_others(&config)?;
    Ok(hints.into_iter().chain(open).collect())
}

fn print(out: Output, findings: &[Finding]) -> Result<(), Failure> {
    if findings.is_empty() {
        out.line("All is well: every message is in exactly one state.")?;
        return Ok(());
    }
    for finding in findings {
        let ids: Vec<String> = finding.ids.iter().map(ToString::to_string).collect();
        let code = if is_not_checked(finding) {
            "not checked"
        } else {
            finding.code.as_str()
        };
        out.line(format_args!("{code}: {}", plain(&finding.what)))?;
        if !ids.is_empty() {
            out.line(format_args!("  messages: {}", ids.join(", ")))?;
        }
        out.line(format_args!("  remedy: {}", plain(&finding.remedy)))?;
    }
    let missed = findings.iter().filter(|finding| is_not_checked(finding));
    match (missed.count(), findings.len()) {
        (0, found) => out.line(count(found as u64, "finding"))?,
        (missed, found) if missed == found => out.line(format_args!(
            "No findings in the checks that ran; {} not made.",
            count(missed as u64, "check")
        ))?,
        (missed, found) => out.line(format_args!(
            "{}, {} not made",
            count((found - missed) as u64, "finding"),
            count(missed as u64, "check")
        ))?,
    }
    Ok(())
}
