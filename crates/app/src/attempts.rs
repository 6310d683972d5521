//! Attempts and late results as commands print them.

use consign_kernel::{Attempt, AttemptOutcome, LateResult};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    output::{Output, Table, or_dash},
    when::{age, fine_stamp, span},
};

/// An attempt or a late result without its token, which is a permission.
pub fn without_token(record: &impl Serialize) -> Value {
    let mut value = json!(record);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("token");
    }
    value
}

/// Prints a table of attempts.
pub fn print_attempts(out: Output, attempts: &[Attempt], now: Timestamp) -> Result<(), Failure> {
    out.line("")?;
    if attempts.is_empty() {
        out.line("no attempts yet")?;
        return Ok(());
    }
    let mut table = Table::new([
        ">attempt",
        "outcome",
        "owner",
        ">fence",
        "finished",
        ">took",
        "code",
        "detail",
        "due again",
    ]);
    for attempt in attempts {
        let next = attempt.next_due_at.map(|at| age(at, now));
        let took = attempt.finished_at.duration_since(attempt.claimed_at);
        table.row([
            attempt.attempt_no.to_string(),
            attempt.outcome.as_str().to_owned(),
            attempt.owner.clone(),
            attempt.fence.to_string(),
            fine_stamp(attempt.finished_at, now),
            span(took),
            or_dash(attempt.code.as_deref()),
            or_dash(attempt.detail.as_deref()),
            or_dash(next.as_deref()),
        ]);
    }
    Ok(out.table(&table)?)
}

/// Results that came after their lease was lost: evidence, not outcomes.
pub fn print_late(out: Output, late: &[LateResult], now: Timestamp) -> Result<(), Failure> {
    if late.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(["came too late", "owner", ">fence", "at", "code", "detail"]);
    for result in late {
        table.row([
            AttemptOutcome::from(result.outcome).as_str().to_owned(),
            result.owner.clone(),
            result.fence.to_string(),
            fine_stamp(result.at, now),
            or_dash(result.code.as_deref()),
            or_dash(result.detail.as_deref()),
        ]);
    }
    Ok(out.table(&table)?)
}
