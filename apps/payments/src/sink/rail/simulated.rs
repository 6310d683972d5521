//! In-process rail: moves no money, keeps its state in memory, and fails by scenario,
//! deterministically.
//!
//! `scenario` in a payment's payload selects its behaviour:
//!
//! | scenario | first submission | after that |
//! |---|---|---|
//! | `SIMULATE_SUCCESS` (the default) | accepted | the same answer |
//! | `SIMULATE_TRANSIENT_FAILURE` | refused, retryable | accepted |
//! | `SIMULATE_PERMANENT_FAILURE` | refused for good | the same answer |
//! | `SIMULATE_UNREACHABLE` | not sent | accepted |
//! | `SIMULATE_BUSY` | not now | accepted |
//! | `SIMULATE_LOST_REQUEST` | lost on its way there | accepted |
//! | `SIMULATE_LOST_REPLY` | accepted, the answer lost | the same answer |
//! | `SIMULATE_TIMEOUT` | accepted, never answered | the same answer |
//! | `SIMULATE_CANNOT_TELL` | accepted, the answer lost, status query fails | lost again |
//! | `SIMULATE_MISSING_REFERENCE` | accepted without a reference | the same answer |
//! | `SIMULATE_REUSED_REFERENCE` | accepted under a reference that others have too | the same answer |
//! | `SIMULATE_CANCEL_SUCCESS` | accepted, can be cancelled | the same answer |
//! | `SIMULATE_CANCEL_TOO_LATE` | accepted, cannot be cancelled | the same answer |
//!
//! Any other value is rejected for good.

use std::{
    collections::{HashMap, VecDeque},
    future::pending,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::timeout;

use super::{CancelResult, Dispatch, Rail, RailLookup, RailReply, SubmitResult};
use crate::{
    OutboxId,
    classify::{DISPATCH_ERROR, DISPATCH_TIMEOUT},
};

/// Maximum references in memory.
const REMEMBERED_MAX: usize = 100_000;

/// See the module.
#[derive(Debug, Default)]
pub struct SimulatedRail {
    books: Mutex<RailState>,
}

#[derive(Debug, Default)]
struct RailState {
    entries: HashMap<OutboxId, Entry>,
    oldest: VecDeque<OutboxId>,
}

/// State of a reference.
#[derive(Clone, Debug, Default)]
struct Entry {
    submissions: u32,
    executions: u32,
    queries: u32,
    scenario: String,
    reply: Option<RailReply>,
    is_cancelled: bool,
}

impl RailState {
    fn entry(&mut self, reference: OutboxId) -> &mut Entry {
        if !self.entries.contains_key(&reference) {
            if self.oldest.len() == REMEMBERED_MAX
                && let Some(oldest) = self.oldest.pop_front()
            {
                self.entries.remove(&oldest);
            }
            self.oldest.push_back(reference);
        }
        self.entries.entry(reference).or_default()
    }
}

impl SimulatedRail {
    /// A rail without payments.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often a payment was submitted.
    pub fn submissions(&self, reference: OutboxId) -> u32 {
        self.read(reference).submissions
    }

    /// How often a payment was paid: never more than once.
    pub fn executions(&self, reference: OutboxId) -> u32 {
        self.read(reference).executions
    }

    /// How often a payment was queried.
    pub fn queries(&self, reference: OutboxId) -> u32 {
        self.read(reference).queries
    }

    fn read(&self, reference: OutboxId) -> Entry {
        let books = self.books();
        books.entries.get(&reference).cloned().unwrap_or_default()
    }

    fn books(&self) -> MutexGuard<'_, RailState> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of a submission; `None` for no answer.
    fn decide(&self, dispatch: &Dispatch) -> Option<SubmitResult> {
        let mut members = dispatch.payload.members().unwrap_or_default();
        let scenario = match members.remove("scenario") {
            None => "SIMULATE_SUCCESS".to_owned(),
            Some(word) if word.as_str() == "null" => "SIMULATE_SUCCESS".to_owned(),
            Some(word) => word.text().unwrap_or_default(),
        };
        let scenario = scenario.as_str();
        let mut books = self.books();
        let entry = books.entry(dispatch.reference);
        entry.submissions += 1;
        scenario.clone_into(&mut entry.scenario);
        let is_first = entry.submissions == 1;
        if let Some(reply) = &entry.reply {
            let reply = SubmitResult::Replied(reply.clone());
            let is_mute = scenario == "SIMULATE_CANNOT_TELL";
            return Some(if is_mute { lost_reply() } else { reply });
        }
        let reference = format!("SIM-{}", dispatch.reference);
        match scenario {
            "SIMULATE_TRANSIENT_FAILURE" if is_first => Some(SubmitResult::Replied(refused(
                "TEMPORARILY_UNAVAILABLE",
                true,
            ))),
            "SIMULATE_UNREACHABLE" if is_first => Some(SubmitResult::NotSent {
                code: DISPATCH_ERROR,
                why: "the simulated rail is unreachable".into(),
            }),
            "SIMULATE_BUSY" if is_first => Some(SubmitResult::NotNow {
                why: "the simulated rail is busy".into(),
                retry_in: Some(Duration::from_secs(1)),
            }),
            "SIMULATE_LOST_REQUEST" if is_first => Some(SubmitResult::Lost {
                code: DISPATCH_ERROR,
                why: "connection lost before the answer".into(),
            }),
            "SIMULATE_LOST_REPLY" | "SIMULATE_CANNOT_TELL" => {
                entry.accept(Some(reference));
                Some(lost_reply())
            }
            "SIMULATE_TIMEOUT" => {
                entry.accept(Some(reference));
                None
            }
            "SIMULATE_MISSING_REFERENCE" => Some(SubmitResult::Replied(entry.accept(None))),
            "SIMULATE_REUSED_REFERENCE" => {
                let shared = Some("SIM-REUSED".to_owned());
                Some(SubmitResult::Replied(entry.accept(shared)))
            }
            "SIMULATE_PERMANENT_FAILURE" => {
                Some(SubmitResult::Replied(entry.refuse("INVALID_ACCOUNT")))
            }
            "SIMULATE_SUCCESS"
            | "SIMULATE_TRANSIENT_FAILURE"
            | "SIMULATE_UNREACHABLE"
            | "SIMULATE_BUSY"
            | "SIMULATE_LOST_REQUEST"
            | "SIMULATE_CANCEL_SUCCESS"
            | "SIMULATE_CANCEL_TOO_LATE" => {
                Some(SubmitResult::Replied(entry.accept(Some(reference))))
            }
            _ => Some(SubmitResult::Replied(entry.refuse("UNKNOWN_SCENARIO"))),
        }
    }
}

impl Entry {
    fn accept(&mut self, rail_reference: Option<String>) -> RailReply {
        self.executions += 1;
        let reply = RailReply {
            is_success: true,
            rail_reference,
            rail_code: Some("ACCEPTED".to_owned()),
            ..RailReply::default()
        };
        self.reply = Some(reply.clone());
        reply
    }

    fn refuse(&mut self, code: &str) -> RailReply {
        let reply = refused(code, false);
        self.reply = Some(reply.clone());
        reply
    }
}

fn refused(code: &str, retryable: bool) -> RailReply {
    RailReply {
        error_code: Some(code.to_owned()),
        error_message: Some("rejection scripted for the simulated rail".to_owned()),
        retryable: Some(retryable),
        ..RailReply::default()
    }
}

fn lost_reply() -> SubmitResult {
    SubmitResult::Lost {
        code: DISPATCH_ERROR,
        why: "connection lost before the answer".into(),
    }
}

#[async_trait]
impl Rail for SimulatedRail {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn destination(&self) -> &str {
        "simulated"
    }

    async fn submit(&self, dispatch: &Dispatch, limit: Duration) -> SubmitResult {
        if let Some(submitted) = self.decide(dispatch) {
            return submitted;
        }
        let silence: Result<(), _> = timeout(limit, pending()).await;
        SubmitResult::Lost {
            code: DISPATCH_TIMEOUT,
            why: format!("no answer within {limit:?} ({silence:?})"),
        }
    }

    async fn query(&self, reference: OutboxId, _limit: Duration) -> RailLookup {
        let mut books = self.books();
        let Some(entry) = books.entries.get_mut(&reference) else {
            return RailLookup::NotFound;
        };
        entry.queries += 1;
        match &entry.reply {
            _ if entry.scenario == "SIMULATE_CANNOT_TELL" => RailLookup::CannotTell(
                "the simulated rail has no status query in this scenario".to_owned(),
            ),
            Some(reply) => RailLookup::Found(reply.clone()),
            None => RailLookup::NotFound,
        }
    }

    async fn cancel(&self, reference: OutboxId, _limit: Duration) -> CancelResult {
        let mut books = self.books();
        let Some(entry) = books.entries.get_mut(&reference) else {
            return CancelResult::NotOffered(
                "the simulated rail does not have this payment".to_owned(),
            );
        };
        match entry.scenario.as_str() {
            "SIMULATE_CANCEL_SUCCESS" => {
                entry.is_cancelled = true;
                CancelResult::Done
            }
            _ if entry.is_cancelled => CancelResult::Done,
            _ => CancelResult::TooLate,
        }
    }
}
