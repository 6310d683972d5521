//! `consign doctor`: every invariant, checked.

use clap::Args;
use consign_kernel::Finding;
use serde_json::json;

use crate::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, count, plain},
};

/// Check every invariant of the database; exit code 1 when something is wrong.
#[derive(Args, Debug)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let findings = context.store().await?.doctor().await?;
        if context.out.is_json() {
            context.out.json(&json!({"findings": findings}))?;
        } else {
            print(context.out, &findings)?;
        }
        Ok(match findings.is_empty() {
            true => Exit::Fine,
            false => Exit::Wrong,
        })
    }
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
