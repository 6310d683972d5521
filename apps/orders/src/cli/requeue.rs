//! `consign orders requeue`: requeues aborted orders.

use clap::Args;
use consign_app::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, plain},
};
use consign_kernel::{By, Move, StateKind, Store};
use serde::Serialize;
use serde_json::json;

use super::selection::OrderRef;
use crate::{Ledger, LedgerEntry, LedgerStatus, app::ledger};

/// Requeue aborted orders with their full number of sends.
///
/// Only aborted orders can be requeued. Their ledger entries become accepted again, with a new time to
/// live. Many at once: `consign requeue --queue orders --code CODE`.
#[derive(Args, Debug)]
pub(super) struct Requeue {
    /// The orders: CLIENT/KEY, or the ids of their messages
    #[arg(required = true, value_name = "ORDER")]
    which: Vec<OrderRef>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    by: ByArgs,
}

/// Result for one order.
#[derive(Serialize)]
struct Answer {
    order: String,
    requeued: bool,
    /// Why it was not requeued, or what would be done.
    why: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

impl Requeue {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let opened = context.open().await?;
        let by = self.by.by("requeued by hand");
        let mut answers = Vec::new();
        for which in &self.which {
            let by = (!self.dry_run).then_some(&by);
            answers.push(requeue(which, &*opened.store, &*ledger(&opened), by).await?);
        }
        report(context.out, self.dry_run, &answers)
    }
}

async fn requeue(
    which: &OrderRef,
    store: &dyn Store,
    ledger: &dyn Ledger,
    by: Option<&By>,
) -> Result<Answer, Failure> {
    let answer = |requeued: bool, why: Option<String>, exit: Exit| Answer {
        order: which.to_string(),
        requeued,
        why,
        exit,
    };
    let Some(entry) = which.find(store, ledger).await? else {
        let why = "the order does not exist".to_owned();
        return Ok(answer(false, Some(why), Exit::NotFound));
    };
    let Some(id) = entry.outbox_id else {
        let why = "it was sent within its request and has no message: place it again with a new \
                   key";
        return Ok(answer(false, Some(why.to_owned()), Exit::Wrong));
    };
    let Some(by) = by else {
        let explained = store.explain(id).await?;
        if explained.as_ref().is_some_and(|it| it.erased.is_some()) {
            return Ok(answer(false, Some(ERASED.to_owned()), Exit::Wrong));
        }
        let state = explained.map(|explained| explained.state.kind());
        return Ok(match state {
            Some(StateKind::Dead) => answer(false, Some("would be requeued".into()), Exit::Fine),
            state => answer(false, Some(refusal(&entry, state)), Exit::Wrong),
        });
    };
    let moves = store.requeue(&[id], by).await?;
    Ok(match moves.first().map(|moved| moved.answer) {
        Some(Move::Moved { .. }) => answer(true, None, Exit::Fine),
        Some(Move::NotDead { state }) => {
            answer(false, Some(refusal(&entry, Some(state))), Exit::Wrong)
        }
        Some(Move::Erased) => answer(false, Some(ERASED.to_owned()), Exit::Wrong),
        _ => answer(false, Some(refusal(&entry, None)), Exit::Wrong),
    })
}

const ERASED: &str = "not requeued: its content was erased, there is nothing to send; place the order \
                      again with a new key";

/// Why an order cannot be requeued.
fn refusal(entry: &LedgerEntry, state: Option<StateKind>) -> String {
    let why = match (entry.status, state) {
        (LedgerStatus::Succeeded, _) => "the broker executed it".to_owned(),
        (_, Some(StateKind::Held)) => {
            "its outcome is unknown: check it at the broker, then run `consign orders resolve`"
                .to_owned()
        }
        (_, Some(state)) => format!("it is not finished ({state})"),
        (_, None) => "its message was removed".to_owned(),
    };
    format!("not requeued: {why}; only aborted orders can be requeued")
}

fn report(out: Output, is_dry_run: bool, answers: &[Answer]) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(&json!({"dry_run": is_dry_run, "orders": answers}))?;
    } else {
        for answer in answers {
            let why = answer.why.as_deref().unwrap_or("requeued");
            out.line(format_args!("{}: {}", plain(&answer.order), plain(why)))?;
        }
    }
    // An unknown order takes precedence: it is more likely a mistake.
    let has = |exit: Exit| answers.iter().any(|answer| answer.exit == exit);
    Ok(match () {
        () if has(Exit::NotFound) => Exit::NotFound,
        () if has(Exit::Wrong) => Exit::Wrong,
        () => Exit::Fine,
    })
}
