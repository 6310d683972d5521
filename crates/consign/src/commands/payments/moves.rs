//! `consign payments requeue`, `hold`, `release` and `resolve`: moving payments by hand.

use clap::{ArgGroup, Args};
use consign_kernel::{By, Move, Outcome, StateKind};
use consign_payments::{OutboxId, PaymentState, Payments, RailBooks, RailResult};
use serde::Serialize;
use serde_json::json;

use super::which::Which;
use crate::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, plain},
};

/// Which payments, who and why.
#[derive(Args, Debug)]
struct Moving {
    /// The payments: their outbox_id, or the ids of their messages
    #[arg(required = true, value_name = "PAYMENT")]
    which: Vec<Which>,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    by: ByArgs,
}

/// Give failed payments a fresh set of tries.
///
/// One that may have reached the rail is asked about first, and you are warned if somebody says that
/// it was paid. Many at once: `consign redrive`.
#[derive(Args, Debug)]
pub(super) struct Requeue {
    #[command(flatten)]
    moving: Moving,
}

/// Park payments that wait: no worker gets them until they are released.
#[derive(Args, Debug)]
pub(super) struct Hold {
    #[command(flatten)]
    moving: Moving,
}

/// Put held payments back.
///
/// One whose outcome is not known is asked about before it is sent again, and you are warned if
/// somebody says that it was paid; one that the rail accepted without a reference is better resolved.
#[derive(Args, Debug)]
pub(super) struct Release {
    #[command(flatten)]
    moving: Moving,
}

/// Record what became of held payments, as you found in the rail's books. Nothing is sent.
///
/// What was paid has a reference there: one payment at a time.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("outcome").required(true).args(["dispatched", "failed"]))]
pub(super) struct Resolve {
    /// The rail has paid it
    #[arg(long, requires = "rail_reference")]
    dispatched: bool,
    /// By which the rail knows it
    #[arg(long, value_name = "TEXT", requires = "dispatched")]
    rail_reference: Option<String>,
    /// The rail has not paid them, and shall not
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    moving: Moving,
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
                let why = "--rail-reference is about one payment; resolve one at a time";
                return Err(Failure::usage(why));
            }
            (true, Some(rail_reference)) => RailBooks::Dispatched { rail_reference },
            (true, None) => return Err(Failure::usage("--dispatched needs --rail-reference")),
            (false, Some(_)) => {
                let why = "--rail-reference: only a payment that was dispatched has one; nothing was changed";
                return Err(Failure::usage(why));
            }
            (false, None) => RailBooks::Failed,
        };
        self.moving.run(context, Action::Resolve(found)).await
    }
}

#[derive(Clone)]
enum Action {
    Requeue,
    Hold,
    Release,
    Resolve(RailBooks),
}

impl Action {
    /// Unless another reason was given.
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

    /// Whether a worker gets the payment afterwards.
    fn may_send(&self) -> bool {
        matches!(self, Self::Requeue | Self::Release)
    }

    /// What would become of a payment in this place.
    fn preview(&self, place: StateKind) -> Move {
        match (self, place) {
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
                    RailBooks::Dispatched { .. } => StateKind::Delivered,
                    RailBooks::Failed => StateKind::Dead,
                },
            },
            (Self::Release | Self::Resolve(_), state) => Move::NotHeld { state },
        }
    }
}

/// What became of one payment.
#[derive(Serialize)]
struct Answer {
    payment: String,
    moved: bool,
    /// How it stands now, or would.
    state: Option<PaymentState>,
    /// Why it stayed.
    why: Option<String>,
    /// What should be known before it is sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

impl Moving {
    async fn run(self, context: &Context, action: Action) -> Result<Exit, Failure> {
        let payments = context.open().await?.payments;
        let by = self.by.by(action.reason());
        let mut answers = Vec::new();
        for which in &self.which {
            let id = which.find(&*payments).await?;
            let moved = match id {
                None => None,
                Some(id) if self.dry_run => {
                    let found = payments.payment(id).await?;
                    found.map(|(view, _)| action.preview(view.place))
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

/// What a worker that had lost the payment says about it, if that is that the rail has it.
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
            Some(reference) => format!("under the reference {reference}"),
            None => "under no reference".to_owned(),
        };
        format!(
            "warning: {} says that the rail accepted it {under}, after its lease had ended; the rail \
             is asked before anything is sent again",
            late.owner
        )
    }))
}

fn answer(which: Which, moved: Option<Move>, is_dry_run: bool) -> Answer {
    let stays = |why: String, exit: Exit| Answer {
        payment: which.to_string(),
        moved: false,
        state: None,
        why: Some(why),
        warning: None,
        exit,
    };
    let wrong = |state: StateKind, only: &str| {
        let (state, place) = (PaymentState::from(state), state);
        let why = format!("left as it is: {state} ({place}); {only}");
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
        Some(Move::NotDead { state }) => wrong(state, "only failed ones can be requeued"),
        Some(Move::NotHeld { state }) => wrong(state, "only held ones can be released or resolved"),
        Some(Move::NotHoldable { state }) => wrong(state, "only those that wait can be held"),
        Some(Move::NoSuchMessage) | None => {
            stays("there is no such payment".to_owned(), Exit::NotFound)
        }
    }
}

fn report(out: Output, is_dry_run: bool, answers: &[Answer]) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(&json!({"dry_run": is_dry_run, "payments": answers}))?;
    } else {
        for answer in answers {
            let told = match (&answer.why, answer.state, is_dry_run) {
                (Some(why), _, _) => why.clone(),
                (None, Some(state), true) => format!("would be {state}"),
                (None, Some(state), false) => format!("now {state}"),
                (None, None, _) => "-".to_owned(),
            };
            out.line(format_args!("{}: {}", plain(&answer.payment), plain(&told)))?;
            if let Some(warning) = &answer.warning {
                out.note(format!("{}: {}", plain(&answer.payment), plain(warning)))?;
            }
        }
    }
    // An unknown payment weighs more: it is likelier a mistake.
    let has = |exit: Exit| answers.iter().any(|answer| answer.exit == exit);
    Ok(match () {
        () if has(Exit::NotFound) => Exit::NotFound,
        () if has(Exit::Wrong) => Exit::Wrong,
        () => Exit::Fine,
    })
}
