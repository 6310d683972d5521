//! The printed results of a command that moves messages.

use consign_kernel::{Move, MoveResult, StateKind};
use serde_json::json;

use crate::{
    failure::{Exit, Failure},
    output::Output,
};

/// Prints the result of each message; the exit code shows whether all of them moved.
pub fn report_moves(out: Output, moves: &[MoveResult]) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(&json!({"moves": moves}))?;
    } else {
        for moved in moves {
            out.line(format_args!("{}: {}", moved.id, sentence(moved.answer)))?;
        }
    }
    Ok(exit(moves))
}

/// An unknown id weighs more than a message that stayed where it is: it is likelier a mistake.
fn exit(moves: &[MoveResult]) -> Exit {
    let any = |test: fn(&Move) -> bool| moves.iter().any(|moved| test(&moved.answer));
    if any(|answer| matches!(answer, Move::NoSuchMessage)) {
        return Exit::NotFound;
    }
    if any(|answer| !matches!(answer, Move::Moved { .. })) {
        Exit::Wrong
    } else {
        Exit::Fine
    }
}

/// What closes a message in this state.
fn instead(state: StateKind, other: &str) -> String {
    match state {
        StateKind::Leased => {
            "; wait for the result of its worker, or end its lease with `consign leases end`".into()
        }
        state if state.is_finished() && state != StateKind::Dead => String::new(),
        _ => format!("; use `consign {other}`"),
    }
}

fn sentence(answer: Move) -> String {
    match answer {
        Move::Moved { state } => format!("now {state}"),
        Move::NotDead { state } => {
            format!("not changed: {state}; only dead ones can be requeued")
        }
        Move::NotHeld { state } => {
            format!("not changed: {state}; only held ones can be put back or resolved")
        }
        Move::NotHoldable { state } => {
            format!("not changed: {state}; only ready and waiting ones can be held")
        }
        Move::NotDiscardable { state } => {
            format!(
                "not changed: {state}; only dead and held ones can be discarded{}",
                instead(state, "cancel")
            )
        }
        Move::NotCancellable { state } => {
            format!(
                "not changed: {state}; only ready and waiting ones can be cancelled{}",
                instead(state, "discard")
            )
        }
        Move::AppQueue => "not changed: its queue belongs to an app that has no such end for its \
                           messages; use the commands of the app"
            .to_owned(),
        Move::Erased => "not changed: its content was erased, there is nothing to send".to_owned(),
        Move::NoSuchMessage => "the message does not exist".to_owned(),
    }
}
