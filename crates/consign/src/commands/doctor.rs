//! `consign doctor`: every invariant, checked.

mod files;

use clap::Args;
use consign_kernel::{Error, Finding, NOT_CHECKED};
use consign_memory::{Issue, MemoryOptions, ReconcileOptions};
use serde_json::json;

use crate::{
    config::Flags,
    context::Context,
    database::Opened,
    failure::{Exit, Failure},
    output::{Output, count, plain},
};

/// What doctor calls audits that are pending for too long.
const HANGING: &str = "memory_audit_hanging";

/// What doctor calls damage of the file itself.
const FILE: &str = "file";

/// Check every invariant of the database; exit code 1 when something is wrong, 5 when the login may not
/// look everywhere.
#[derive(Args, Debug)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let findings = match context.open().await {
            Ok(opened) => examine(context, &opened).await?,
            Err(failure) if failure.code() == Some("corrupt") => vec![unreadable(&failure)],
            Err(failure) => return Err(failure),
        };
        let hints = hints(context)?;
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

async fn examine(context: &Context, opened: &Opened) -> Result<Vec<Finding>, Failure> {
    let mut findings = opened.store.doctor().await?;
    // What a damaged file holds is not to be relied on.
    if !findings.iter().any(|finding| finding.code == FILE) {
        by_settings(context, opened, &mut findings).await?;
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
    let server = &config.settings.server;
    let has_bare_sessions = !server.tokens.is_empty() && server.session_key.is_none();
    let hint = "server.session_key is not set: whoever can read the hashes of server.tokens can make \
                a session of the dashboard";
    let hints = has_bare_sessions.then(|| hint.to_owned());
    let open = files::readable_by_others(&config)?;
    Ok(hints.into_iter().chain(open).collect())
}

/// The database takes it that an audit may be pending for two hours; the settings may say otherwise.
async fn by_settings(
    context: &Context,
    opened: &Opened,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let configured = context
        .config(Flags::new())?
        .settings
        .memory
        .options
        .reconcile();
    let timeout = configured.audit_timeout;
    if timeout == MemoryOptions::default().reconcile().audit_timeout {
        return Ok(());
    }
    findings.retain(|finding| finding.code != HANGING);
    let options = ReconcileOptions {
        is_repairing: false,
        ..configured
    };
    let found = match opened.memory.reconcile_memory(&options).await {
        Ok(report) => report.findings,
        Err(Error::Forbidden { what }) => {
            findings.push(Finding {
                code: NOT_CHECKED.to_owned(),
                what: format!("audits that are pending for long: {what}"),
                remedy: "run doctor with a login in consign_operator".to_owned(),
                ids: Vec::new(),
            });
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let count = found
        .iter()
        .filter(|it| it.issue == Issue::HangingAudit)
        .count();
    if count > 0 {
        let seconds = timeout.as_secs();
        findings.push(Finding {
            code: HANGING.to_owned(),
            what: format!("{count} or more audits have been pending for over {seconds} s"),
            remedy: "`consign reconcile` ends them".to_owned(),
            ids: Vec::new(),
        });
    }
    Ok(())
}

fn print(out: Output, findings: &[Finding]) -> Result<(), Failure> {
    if findings.is_empty() {
        out.line("All is well: every message is in exactly one place.")?;
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
        out.line(format_args!("  to mend it: {}", plain(&finding.remedy)))?;
    }
    let missed = findings.iter().filter(|finding| is_not_checked(finding));
    match (missed.count(), findings.len()) {
        (0, found) => out.line(count(found as u64, "finding"))?,
        (missed, found) if missed == found => out.line(format_args!(
            "Nothing wrong was found in what could be looked at; {} not made.",
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
