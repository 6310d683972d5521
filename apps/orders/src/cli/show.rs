//! `consign orders show`: an order, its ledger entry and every attempt.

use clap::Args;
use consign_app::{
    attempts::{print_attempts, without_token},
    context::Context,
    failure::{Exit, Failure},
    output::{Output, or_dash, plain},
    when::fine_stamp,
};
use consign_kernel::{Attempt, Explanation, State};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{Row, selection::OrderRef};
use crate::{LedgerEntry, app::ledger};

/// Show an order: its ledger entry and every attempt.
#[derive(Args, Debug)]
pub(super) struct Show {
    /// The order: CLIENT/KEY, or the id of its message
    #[arg(value_name = "ORDER")]
    which: OrderRef,
}

/// The JSON shape of `show`.
#[derive(Serialize)]
struct ShowOutput<'a> {
    order: Row<'a>,
    /// State of its message; `None` for orders sent within their request.
    state: Option<&'a State>,
    attempts: Vec<Value>,
}

impl Show {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let opened = context.open().await?;
        let (store, ledger) = (&*opened.store, &*ledger(&opened));
        let entry = self.which.find(store, ledger).await?;
        let entry = entry.ok_or_else(|| self.which.missing())?;
        let (explanation, attempts) = match entry.outbox_id {
            Some(id) => (store.explain(id).await?, store.history(id).await?),
            None => (None, Vec::new()),
        };
        if context.out.is_json() {
            context.out.json(&ShowOutput {
                order: Row::new(&entry),
                state: explanation.as_ref().map(|explanation| &explanation.state),
                attempts: attempts.iter().map(without_token).collect(),
            })?;
            return Ok(Exit::Fine);
        }
        print(context.out, &entry, explanation.as_ref(), &attempts)?;
        Ok(Exit::Fine)
    }
}

fn print(
    out: Output,
    entry: &LedgerEntry,
    explanation: Option<&Explanation>,
    attempts: &[Attempt],
) -> Result<(), Failure> {
    let now = explanation.map_or_else(Timestamp::now, |explanation| explanation.now);
    let field = |name: &str, value: &str| out.line(format_args!("{name:<12}{}", plain(value)));
    field("order", &format!("{}/{}", entry.client, entry.key.as_str()))?;
    let status = format!("{} (HTTP {})", entry.status.as_str(), entry.http_status);
    field("status", &status)?;
    field("first seen", &fine_stamp(entry.first_seen_at, now))?;
    field("last seen", &fine_stamp(entry.last_seen_at, now))?;
    field(
        "remembered",
        &format!("until {}", fine_stamp(entry.expires_at, now)),
    )?;
    if let Some(at) = entry.order_expires_at {
        field("expires", &format!("unsent at {}", fine_stamp(at, now)))?;
    }
    field("conflicts", &entry.conflicts.to_string())?;
    field("request", &entry.request_digest)?;
    field("result", &or_dash(entry.result_digest.as_deref()))?;
    if let Some(response) = &entry.response {
        field("answer", response)?;
    }
    let Some(explanation) = explanation else {
        field("message", "-: it was sent within its request")?;
        return Ok(());
    };
    field("message", &explanation.message.id.to_string())?;
    field("state", explanation.state.kind().as_str())?;
    field("why", &explanation.sentence())?;
    print_attempts(out, attempts, now)
}
