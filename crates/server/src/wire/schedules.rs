//! Schedules.

use consign_kernel::{
    MISSED_MAX, MissedPolicy, Payload, QueueName, Result, Schedule, ScheduleName, SchedulePlan,
    exact_headers,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use utoipa::{IntoParams, ToSchema};

use super::shapes;

fn utc() -> String {
    "UTC".to_owned()
}

fn missed_max() -> u32 {
    MISSED_MAX
}

/// What a schedule enqueues, and when.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutScheduleBody {
    /// Where its messages go.
    #[schema(value_type = String)]
    queue: QueueName,
    /// Cron expression: minute, hour, day of month, month, day of week; with seconds before them if six.
    cron: String,
    /// Name of the time zone the expression is read in, as in the IANA database.
    #[serde(default = "utc")]
    time_zone: String,
    /// What to deliver: any JSON, kept exactly.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// Headers of its messages.
    #[serde(default, deserialize_with = "exact_headers")]
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    /// Ordering key of its messages, honoured in ordered queues.
    #[serde(default)]
    group: Option<String>,
    /// What becomes of ticks that no process took within a minute.
    #[serde(default)]
    #[schema(value_type = shapes::MissedWord)]
    missed: MissedPolicy,
    /// For `all`: how many of the last missed ticks get a message.
    #[serde(default = "missed_max")]
    missed_max: u32,
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    reason: Option<String>,
}

impl PutScheduleBody {
    /// The plan and the reason, if its payload takes no more than `bytes_max`.
    pub(crate) fn into_plan(self, bytes_max: usize) -> Result<(SchedulePlan, Option<String>)> {
        let payload = Payload::parse_within(self.payload.get(), bytes_max);
        let plan = SchedulePlan {
            queue: self.queue,
            cron: self.cron,
            time_zone: self.time_zone,
            payload: payload.map_err(|error| error.named("payload"))?,
            headers: self.headers,
            group: self.group,
            missed: self.missed,
            missed_max: self.missed_max,
        };
        Ok((plan, self.reason))
    }
}

/// Which schedules.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ScheduleParams {
    /// At most this many, 100 without it, 1,000 at most.
    limit: Option<u32>,
    /// Only those whose names come after this one.
    #[param(value_type = Option<String>)]
    pub(crate) after: Option<ScheduleName>,
}

impl ScheduleParams {
    pub(crate) fn limit(&self) -> u32 {
        self.limit
            .unwrap_or(100)
            .clamp(1, consign_kernel::PAGE_ENTRIES_MAX)
    }
}

/// Schedules by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleList {
    #[schema(value_type = Vec<shapes::Schedule>)]
    pub(crate) schedules: Vec<Schedule>,
    /// `after` of the next page, if there may be one.
    #[schema(value_type = Option<String>)]
    pub(crate) next: Option<ScheduleName>,
}
