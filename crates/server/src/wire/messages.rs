//! Reading messages.

use consign_kernel::{
    Attempt, AttemptOutcome, AuditEntry, Cursor, Erasure, Fence, Filter, LateResult, Message,
    MessageId, MessageSummary, Outcome, QueueName, State, StateKind,
};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::shapes;

/// A message with its state, attempts and audit entries.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageView {
    #[schema(value_type = shapes::Message)]
    pub(crate) message: Message,
    #[schema(value_type = shapes::State)]
    pub(crate) state: State,
    /// Why it is there and what to do, in plain words.
    pub(crate) explanation: String,
    /// Who erased its content, when and why; null if it was not erased.
    #[schema(value_type = Option<shapes::Erasure>)]
    pub(crate) erased: Option<Erasure>,
    /// First to last.
    pub(crate) attempts: Vec<AttemptView>,
    /// Results that came after their lease had ended, in order of arrival.
    pub(crate) late_results: Vec<LateView>,
    /// Operator actions on it, newest first.
    #[schema(value_type = Vec<shapes::AuditEntry>)]
    pub(crate) audit: Vec<AuditEntry>,
    /// The database's clock at the time of the read.
    pub(crate) now: Timestamp,
}

/// What happened to a message in one lease. Without the lease's token: that is a permission.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptView {
    attempt_no: u32,
    #[schema(value_type = shapes::AttemptOutcomeWord)]
    outcome: AttemptOutcome,
    owner: String,
    #[schema(value_type = i64)]
    fence: Fence,
    claimed_at: Timestamp,
    finished_at: Timestamp,
    code: Option<String>,
    detail: Option<String>,
    result: Option<Value>,
    next_due_at: Option<Timestamp>,
}

impl From<Attempt> for AttemptView {
    fn from(attempt: Attempt) -> Self {
        Self {
            attempt_no: attempt.attempt_no,
            outcome: attempt.outcome,
            owner: attempt.owner,
            fence: attempt.fence,
            claimed_at: attempt.claimed_at,
            finished_at: attempt.finished_at,
            code: attempt.code,
            detail: attempt.detail,
            result: attempt.result,
            next_due_at: attempt.next_due_at,
        }
    }
}

/// A result that came after its lease had ended: evidence, never an outcome.
#[derive(Debug, Serialize, ToSchema)]
pub struct LateView {
    #[schema(value_type = i64)]
    fence: Fence,
    owner: String,
    #[schema(value_type = shapes::OutcomeWord)]
    outcome: Outcome,
    code: Option<String>,
    detail: Option<String>,
    result: Option<Value>,
    at: Timestamp,
}

impl From<LateResult> for LateView {
    fn from(late: LateResult) -> Self {
        Self {
            fence: late.fence,
            owner: late.owner,
            outcome: late.outcome,
            code: late.code,
            detail: late.detail,
            result: late.result,
            at: late.at,
        }
    }
}

/// The attempts of one message, first to last.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptList {
    pub(crate) attempts: Vec<AttemptView>,
}

/// Which messages to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only this queue.
    #[param(value_type = Option<String>)]
    queue: Option<QueueName>,
    /// Only messages in this state.
    #[param(value_type = Option<shapes::StateWord>)]
    state: Option<StateKind>,
    /// Only this key.
    key: Option<String>,
    /// Only messages with a key that begins with this text.
    key_prefix: Option<String>,
    /// Only messages of this group.
    group: Option<String>,
    /// Only messages whose header `correlation_id` is this text.
    correlation_id: Option<String>,
    /// Only messages with this header, a text: `name=value`.
    #[serde(default, deserialize_with = "header")]
    #[param(value_type = Option<String>)]
    header: Option<(String, String)>,
    /// Only messages enqueued at this time or later.
    since: Option<Timestamp>,
    /// Only messages enqueued before this time.
    until: Option<Timestamp>,
    /// Only dead messages with this code.
    code: Option<String>,
    /// Only messages below this id: the `next` of the page before.
    before: Option<i64>,
    /// How many; 100 by default, 1,000 at most.
    limit: Option<u32>,
}

/// Which dead messages to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeadParams {
    /// Only this queue.
    #[param(value_type = Option<String>)]
    queue: Option<QueueName>,
    /// Only this code.
    code: Option<String>,
    /// Only messages below this id: the `next` of the page before.
    before: Option<i64>,
    /// How many; 100 by default, 1,000 at most.
    limit: Option<u32>,
}

/// Which dead messages to group.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CauseParams {
    /// Only this queue.
    #[param(value_type = Option<String>)]
    queue: Option<QueueName>,
    /// Only this code.
    code: Option<String>,
}

impl From<CauseParams> for Filter {
    fn from(params: CauseParams) -> Self {
        Self {
            queue: params.queue,
            code: params.code,
            ..Self::default()
        }
    }
}

fn header<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<(String, String)>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Some((name.to_owned(), value.to_owned()))),
        _ => Err(D::Error::custom("a header is written name=value")),
    }
}

/// How much of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LimitParams {
    /// How many; 100 by default, 1,000 at most.
    limit: Option<u32>,
}

/// A filter, where to begin, and how many.
pub(crate) type Selection = (Filter, Option<Cursor>, u32);

impl From<ListParams> for Selection {
    fn from(params: ListParams) -> Self {
        let filter = Filter {
            queue: params.queue,
            state: params.state,
            key: params.key,
            key_prefix: params.key_prefix,
            group: params.group,
            correlation_id: params.correlation_id,
            headers: params.header.into_iter().collect(),
            since: params.since,
            until: params.until,
            code: params.code,
        };
        (
            filter,
            params.before.map(MessageId),
            page_size(params.limit),
        )
    }
}

impl From<DeadParams> for Selection {
    fn from(params: DeadParams) -> Self {
        let filter = Filter {
            queue: params.queue,
            code: params.code,
            ..Filter::default()
        };
        (
            filter,
            params.before.map(MessageId),
            page_size(params.limit),
        )
    }
}

impl LimitParams {
    pub(crate) fn limit(&self) -> u32 {
        page_size(self.limit)
    }
}

/// How many entries a page has.
pub fn page_size(requested: Option<u32>) -> u32 {
    requested
        .unwrap_or(100)
        .clamp(1, consign_kernel::PAGE_ENTRIES_MAX)
}

/// Some messages, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessagePage {
    #[schema(value_type = Vec<shapes::MessageSummaryBody>)]
    pub(crate) messages: Vec<MessageSummary>,
    /// What to give as `before` for the next page; absent on the last one.
    #[schema(value_type = Option<i64>)]
    pub(crate) next: Option<Cursor>,
}

/// The dead by queue and code, the largest group first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CauseList {
    #[schema(value_type = Vec<shapes::DeadCause>)]
    pub(crate) causes: Vec<CauseView>,
    /// Whether these are all dead messages that match; else the newest 100,000 of them.
    pub(crate) is_whole: bool,
}

/// What is dead for one reason.
#[derive(Debug, Serialize)]
pub(crate) struct CauseView {
    #[serde(flatten)]
    pub(crate) cause: consign_kernel::DeadCause,
    /// Where the sink of the queue delivers to now; null if this process has none for it.
    pub(crate) destination: Option<String>,
}

/// Some dead messages, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadPage {
    #[schema(value_type = Vec<shapes::DeadLetter>)]
    pub(crate) dead: Vec<consign_kernel::DeadLetter>,
    /// What to give as `before` for the next page; absent on the last one.
    #[schema(value_type = Option<i64>)]
    pub(crate) next: Option<Cursor>,
}
