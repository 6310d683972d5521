//! `consign payments requeue`, `hold`, `release` and `resolve`: moving payments by hand.

use clap::{ArgGroup, Args};
use consign_app::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, plain},
};
use consign_kernel::{By, Move, Outcome, StateKind};
use serde::Serialize;
use serde_json::json;

use super::selection::PaymentRef;
use crate::{OutboxId, PaymentState, Payments, RailRecord, RailResult, app::payments};

/// Payments, actor and reason.
#[derive(Args, Debug)]
struct MoveArgs {
    /// The payments: their outbox_id, or the ids of their messages
    #[arg(required = true, value_name = "PAYMENT")]
    which: Vec<PaymentRef>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    by: ByArgs,
}

/// Requeue failed payments with their full number of attempts.
///
/// A payment that may have reached the rail is queried there first, and a late success causes a warning.
/// Many at once: `consign redrive`.
#[derive(Args, Debug)]
pub(super) struct Requeue {
    #[command(flatten)]
    moving: MoveArgs,
}

/// Hold pending payments: they cannot be claimed until they are released.
#[derive(Args, Debug)]
pub(super) struct Hold {
    #[command(flatten)]
    moving: MoveArgs,
}

/// Release held payments.
///
/// A payment with an unknown outcome is queried at the rail before it is sent again, and a late success
/// causes a warning; one that the rail accepted without a reference should be resolved instead.
#[derive(Args, Debug)]
pub(super) struct Release {
    #[command(flatten)]
    moving: MoveArgs,
}

/// Resolve held payments as found in the rail's records. Nothing is sent.
///
/// A paid payment needs its reference: one payment at a time.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("outcome").required(true).args(["dispatched", "failed"]))]
pub(super) struct Resolve {
    /// The rail paid it
    #[arg(long, requires = "rail_reference")]
    dispatched: bool,
    /// The rail's reference
    #[arg(long, value_name = "TEXT", requires = "dispatched")]
    rail_reference: Option<String>,
    /// The rail did not pay them and will not
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    moving: MoveArgs,
}

impl Requeue {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        self.moving.run(context, Action::Requeue).await
    }
}

impl Hold {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        self.moving.run(context, Action::Hold).await
    }
}

impl Release {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        self.moving.run(context, Action::Release).await
    }
}

impl Resolve {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        // clap waives `requires` where the required argument conflicts with one that is given.
        let found = match (self.dispatched, self.rail_reference) {
            (true, Some(_)) if self.moving.which.len() > 1 => {
                let why = "--rail-reference applies to one payment; resolve one at a time";
                return Err(Failure::usage(why));
            }
            (true, Some(rail_reference)) => RailRecord::Dispatched { rail_reference },
            (true, None) => return Err(Failure::usage("--dispatched requires --rail-reference")),
            (false, Some(_)) => {
                let why = "--rail-reference is allowed only with --dispatched; nothing was changed";
                return Err(Failure::usage(why));
            }
            (false, None) => RailRecord::Failed,
        };
        self.moving.run(context, Action::Resolve(found)).await
    }
}

#[derive(Clone)]
enum Action {
    Requeue,
    Hold,
    Release,
    Resolve(RailRecord),
}

impl Action {
    /// Default reason.
    fn reason(&self) -> &'static str {
        match self {
            Self::Requeue => "requeued by hand",
            Self::Hold => "held by hand",
            Self::Release => "released by hand",
            Self::Resolve(_) => "resolved by hand",
        }
    }

    async fn run(
        &self,
        payments: &dyn Payments,
        id: OutboxId,
        by: &By,
    ) -> Result<Option<Move>, Failure> {
        let ids = [id];
        let moved = match self {
            Self::Requeue => payments.requeue_payments(&ids, by).await?,
            Self::Hold => payments.hold_payments(&ids, by).await?,
            Self::Release => payments.release_payments(&ids, by).await?,
            Self::Resolve(found) => vec![payments.resolve_payment(id, found, by).await?],
        };
        Ok(moved.first().map(|moved| moved.answer))
    }

    /// Whether the payment can be claimed afterwards.
    fn may_send(&self) -> bool {
        matches!(self, Self::Requeue | Self::Release)
    }

    /// Preview for a payment in this state.
    fn preview(&self, state: StateKind) -> Move {
        match (self, state) {
            (Self::Requeue, StateKind::Dead) | (Self::Release, StateKind::Held) => Move::Moved {
                state: StateKind::Ready,
            },
            (Self::Requeue, state) => Move::NotDead { state },
            (Self::Hold, StateKind::Ready | StateKind::Waiting) => Move::Moved {
                state: StateKind::Held,
            },
            (Self::Hold, state) => Move::NotHoldable { state },
            (Self::Resolve(found), StateKind::Held) => Move::Moved {
                state: match found {
                    RailRecord::Dispatched { .. } => StateKind::Delivered,
                    RailRecord::Failed => StateKind::Dead,
                },
            },
            (Self::Release | Self::Resolve(_), state) => Move::NotHeld { state },
        }
    }
}

/// Result for one payment.
#[derive(Serialize)]
struct Answer {
    payment: String,
    moved: bool,
    /// Its state after the operation.
    state: Option<PaymentState>,
    /// Why it did not change.
    why: Option<String>,
    /// Warning before it is sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

impl MoveArgs {
    async fn run(self, context: &Context, action: Action) -> Result<Exit, Failure> {
        let payments = payments(&context.open().await?);
        let by = self.by.by(action.reason());
        let mut answers = Vec::new();
        for which in &self.which {
            let id = which.find(&*payments).await?;
            let moved = match id {
                None => None,
                Some(id) if self.dry_run => {
                    let found = payments.payment(id).await?;
                    found.map(|(view, _)| action.preview(view.message_state))
                }
                Some(id) => action.run(&*payments, id, &by).await?,
            };
            let mut answer = answer(*which, moved, self.dry_run);
            if let (Some(id), Some(Move::Moved { .. })) = (id, moved)
                && action.may_send()
            {
                answer.warning = evidence(&*payments, id).await?;
            }
            answers.push(answer);
        }
        report(context.out, self.dry_run, &answers)
    }
}

/// A late success of the payment, as a warning.
async fn evidence(payments: &dyn Payments, id: OutboxId) -> Result<Option<String>, Failure> {
    let messages = payments.payment_messages(&[id]).await?;
    let Some(message) = messages.first().copied().flatten() else {
        return Ok(None);
    };
    let late = payments.late(message).await?;
    let mut paid = late
        .iter()
        .filter(|late| late.outcome == Outcome::Delivered);
    Ok(paid.next_back().map(|late| {
        let result = RailResult::from_value(late.result.as_ref());
        let under = match result.rail_reference {
            Some(reference) => format!("with the reference {reference}"),
            None => "without a reference".to_owned(),
        };
        format!(
            "warning: {} reported after its lease had ended that the rail accepted it {under}; the rail \
             is queried before it is sent again",
            late.owner
        )
    }))
}

fn answer(which: PaymentRef, moved: Option<Move>, is_dry_run: bool) -> Answer {
    let stays = |why: String, exit: Exit| Answer {
        payment: which.to_string(),
        moved: false,
        state: None,
        why: Some(why),
        warning: None,
        exit,
    };
    let wrong = |state: StateKind, only: &str| {
        let (state, message_state) = (PaymentState::from(state), state);
        let why = format!("not changed: {state} ({message_state}); {only}");
        stays(why, Exit::Wrong)
    };
    match moved {
        Some(Move::Moved { state }) => Answer {
            payment: which.to_string(),
            moved: !is_dry_run,
            state: Some(state.into()),
            why: None,
            warning: None,
            exit: Exit::Fine,
        },
        Some(Move::NotDead { state }) => wrong(state, "only failed payments can be requeued"),
        Some(Move::NotHeld { state }) => {
            wrong(state, "only held payments can be released or resolved")
        }
        Some(Move::NotHoldable { state }) => wrong(state, "only pending payments can be held"),
        Some(Move::NotDiscardable { state } | Move::NotCancellable { state }) => {
            wrong(state, "payments are neither discarded nor cancelled")
        }
        // Messages of apps are not erased.
        Some(Move::AppQueue | Move::Erased) => wrong(StateKind::Dead, "its message was erased"),
        Some(Move::NoSuchMessage) | None => {
            stays("the payment does not exist".to_owned(), Exit::NotFound)
        }
    }
}

fn report(out: Output, is_dry_run: bool, answers: &[Answer]) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(&json!({"dry_run": is_dry_run, "payments": answers}))?;
    } else {
        for answer in answers {
            let summary = match (&answer.why, answer.state, is_dry_run) {
                (Some(why), _, _) => why.clone(),
                (None, Some(state), true) => format!("would be {state}"),
                (None, Some(state), false) => format!("now {state}"),
                (None, None, _) => "-".to_owned(),
            };
            out.line(format_args!(
                "{}: {}",
                plain(&answer.payment),
                plain(&summary)
            ))?;
            if let Some(warning) = &answer.warning {
                out.note(format!("{}: {}", plain(&answer.payment), plain(warning)))?;
            }
        }
    }
    // An unknown payment takes precedence: it is more likely a mistake.
    let has = |exit: Exit| answers.iter().any(|answer| answer.exit == exit);
    Ok(match () {
        () if has(Exit::NotFound) => Exit::NotFound,
        () if has(Exit::Wrong) => Exit::Wrong,
        () => Exit::Fine,
    })
}
