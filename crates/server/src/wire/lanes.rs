//! Lanes.

use consign_kernel::{Counts, Lane, LaneName, LanePolicy, PAGE_ENTRIES_MAX};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::{shapes, worker::LaneWorkerView};

/// A lane with what is in it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LaneView {
    #[schema(value_type = String)]
    pub(crate) name: LaneName,
    #[schema(value_type = shapes::LanePolicy)]
    policy: LanePolicy,
    /// Since when nothing is claimed from it, if paused.
    paused_at: Option<Timestamp>,
    counts: CountsView,
    /// How long the oldest ready message has been due.
    oldest_ready_age_seconds: f64,
    /// The lane as the worker of this process sees it, if it works there.
    worker: Option<LaneWorkerView>,
}

impl LaneView {
    pub(crate) fn new(
        (lane, counts): (Lane, Counts),
        worker: Option<LaneWorkerView>,
        now: Timestamp,
    ) -> Self {
        let age = |due_at: Timestamp| now.duration_since(due_at).as_secs_f64().max(0.0);
        Self {
            name: lane.name,
            policy: lane.policy,
            paused_at: lane.paused_at,
            oldest_ready_age_seconds: counts.oldest_due_at.map_or(0.0, age),
            counts: counts.into(),
            worker,
        }
    }
}

/// How many messages of a lane are where. Delivered ones are not counted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountsView {
    waiting: u64,
    /// Ready and due.
    ready: u64,
    /// Ready, but due later.
    scheduled: u64,
    leased: u64,
    held: u64,
    dead: u64,
    /// When the oldest ready and due message became due.
    oldest_due_at: Option<Timestamp>,
}

impl From<Counts> for CountsView {
    fn from(counts: Counts) -> Self {
        Self {
            waiting: counts.waiting,
            ready: counts.ready,
            scheduled: counts.scheduled,
            leased: counts.leased,
            held: counts.held,
            dead: counts.dead,
            oldest_due_at: counts.oldest_due_at,
        }
    }
}

/// Lanes by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LaneList {
    pub(crate) lanes: Vec<LaneView>,
    /// What to give as `after` for the next page; absent on the last one.
    #[schema(value_type = Option<String>)]
    pub(crate) next: Option<LaneName>,
}

/// Which lanes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LaneParams {
    /// Only lanes whose names come after this one.
    #[param(value_type = Option<String>)]
    pub(crate) after: Option<LaneName>,
    /// How many; 1,000 unless fewer are asked for.
    limit: Option<u32>,
}

impl LaneParams {
    pub(crate) fn limit(&self) -> u32 {
        let limit = self.limit.unwrap_or(PAGE_ENTRIES_MAX);
        limit.clamp(1, PAGE_ENTRIES_MAX)
    }
}

/// A lane as it shall be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutLaneBody {
    /// Its whole policy; what is left out has its default.
    #[serde(default)]
    #[schema(value_type = shapes::LanePolicyChange)]
    pub(crate) policy: LanePolicy,
    /// Why; the audit keeps it.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// What shall change in a lane.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchLaneBody {
    /// Some of its policy; what is left out stays as it is.
    #[schema(value_type = shapes::LanePolicyChange)]
    pub(crate) policy: Map<String, Value>,
    /// Why; the audit keeps it.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// A lane without its counts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LaneBody {
    #[schema(value_type = String)]
    name: LaneName,
    #[schema(value_type = shapes::LanePolicy)]
    policy: LanePolicy,
    /// Since when nothing is claimed from it, if paused.
    paused_at: Option<Timestamp>,
}

impl From<Lane> for LaneBody {
    fn from(lane: Lane) -> Self {
        Self {
            name: lane.name,
            policy: lane.policy,
            paused_at: lane.paused_at,
        }
    }
}
