//! `consign doctor`: every invariant, checked.

use clap::Args;
use consign_kernel::Finding;
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

/// Check every invariant of the database; exit code 1 when something is wrong.
#[derive(Args, Debug)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let opened = context.open().await?;
        let mut findings = opened.store.doctor().await?;
        by_settings(context, &opened, &mut findings).await?;
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
        Ok(match findings.is_empty() {
            true => Exit::Fine,
            false => Exit::Wrong,
        })
    }
}

/// What could be set up better. Nothing is wrong with the database, so the exit code is the same.
fn hints(context: &Context) -> Result<Vec<&'static str>, Failure> {
    let server = context.config(Flags::new())?.settings.server;
    let has_bare_sessions = !server.tokens.is_empty() && server.session_key.is_none();
    let hint = "server.session_key is not set: whoever can read the hashes of server.tokens can make \
                a session of the dashboard";
    Ok(has_bare_sessions.then_some(hint).into_iter().collect())
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
    let found = opened.memory.reconcile_memory(&options).await?.findings;
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
        out.line(format_args!("{}: {}", finding.code, plain(&finding.what)))?;
        if !ids.is_empty() {
            out.line(format_args!("  messages: {}", ids.join(", ")))?;
        }
        out.line(format_args!("  to mend it: {}", plain(&finding.remedy)))?;
    }
    out.line(count(findings.len() as u64, "finding"))?;
    Ok(())
}
