//! An operator of the shop who requeues dead letters now and then, with a reason.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::{
    caller::{Call, Caller},
    chance::Chance,
};

/// How often.
const EVERY: Duration = Duration::from_secs(25);

/// Queues whose dead letters are worth another try, and why.
const REASONS: &[(&str, &str)] = &[
    ("webhooks", "the partner reports it fixed"),
    ("mail", "the customer insists on the address"),
    ("orders", "the customer wants another try"),
    ("reports", "the form is there now"),
];

/// Looks until it is dropped.
pub(crate) async fn look(caller: Caller, seed: u64) {
    let mut chance = Chance::new(seed);
    let mut beats = interval_at(Instant::now() + EVERY, EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let (queue, reason) = *chance.pick(REASONS);
        let dead = caller.get(&format!("/v1/dead?queue={queue}&limit=1")).await;
        let id = dead.and_then(|dead| dead["dead"][0]["message_id"].as_i64());
        if let Some(id) = id {
            let path = format!("/v1/messages/{id}/requeue");
            let requeue = Call::new(path, json!({"reason": reason}));
            caller.post(&requeue).await;
        }
    }
}
