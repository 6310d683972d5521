//! The queue of a protocol in the database.

use consign_kernel::{By, Error, QueueName, QueuePolicy, Store};
use serde_json::{Value, json};

use crate::config::Config;

/// Who sets the queue, in the audit.
const ACTOR: &str = "config file";

/// What became of the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It was made, or changed to what the settings say.
    Set(QueueName),
    /// It is as it is to be, or as somebody with more rights wants it.
    AsItIs,
    /// It is not there, and this login may not make it: its messages are others' business.
    LeftToOthers,
    /// It is there, and this login may not work it.
    NotGranted,
}

/// A queue whose policy follows from a table of the configuration that has its name.
#[derive(Debug)]
pub(super) struct OwnQueue {
    pub(super) name: QueueName,
    /// What it is made with.
    pub(super) policy: QueuePolicy,
    /// Whether anybody said anything about it.
    pub(super) is_said: bool,
    /// The fields of the policy that somebody said something about. Of a queue that is there, only
    /// these change: others are set by SQL, by `consign queues set` or by other processes.
    pub(super) policy_said: Vec<&'static str>,
}

impl OwnQueue {
    /// Makes the queue, or changes it to what the settings say.
    ///
    /// A login that may not is no obstacle where nobody asked for it; where somebody did, it is told
    /// what would help.
    pub(super) async fn put(self, store: &dyn Store, config: &Config) -> Result<Put, Error> {
        let Self { name, .. } = self;
        if !store.may_work(&name).await? {
            return Ok(Put::NotGranted);
        }
        let before = store.queue(&name).await?;
        let policy = match &before {
            Some(before) => overlaid(&before.policy, &self.policy, &self.policy_said)?,
            None => self.policy,
        };
        if before.as_ref().is_some_and(|it| it.policy == policy) {
            return Ok(Put::AsItIs);
        }
        let said = match &config.file {
            Some(file) => format!("[{name}] of {} says so", file.display()),
            None => format!("the settings of {name} say so"),
        };
        match store
            .put_queue(&name, &policy, &By::new(ACTOR, &said))
            .await
        {
            Ok(_) => Ok(Put::Set(name)),
            Err(Error::Forbidden { what }) if self.is_said => Err(Error::Forbidden {
                what: format!(
                    "queue {name} is not as [{name}] says, and setting it needs the role \
                     consign_operator: let an operator start `consign serve` once with these \
                     settings, or set {name}.enabled = false here ({what})"
                ),
            }),
            Err(Error::Forbidden { .. }) if before.is_some() => Ok(Put::AsItIs),
            Err(Error::Forbidden { .. }) => Ok(Put::LeftToOthers),
            Err(error) => Err(error),
        }
    }
}

/// A policy with some fields of another.
fn overlaid(
    before: &QueuePolicy,
    said: &QueuePolicy,
    fields: &[&str],
) -> Result<QueuePolicy, Error> {
    let (mut policy, said) = (json!(before), json!(said));
    for field in fields {
        match field.split_once('.') {
            // A schedule of another kind has other fields.
            Some((whole, part)) if policy[whole]["kind"] == said[whole]["kind"] => {
                policy[whole][part] = said[whole][part].clone();
            }
            Some((whole, _)) => policy[whole] = said[whole].clone(),
            None => policy[*field] = said[*field].clone(),
        }
    }
    read(policy)
}

fn read(policy: Value) -> Result<QueuePolicy, Error> {
    serde_json::from_value(policy).map_err(|error| Error::invalid("policy", error.to_string()))
}

#[cfg(test)]
mod tests {
    use consign_kernel::RetrySchedule;

    use super::*;

    #[test]
    fn only_what_is_said_changes() {
        let exponential = |base_ms, max_ms, jitter| RetrySchedule::Exponential {
            base_ms,
            factor: 2.0,
            max_ms,
            jitter,
        };
        let before = QueuePolicy {
            attempts_max: 50,
            lease_ttl_ms: 300_000,
            retry: exponential(7, 900_000, 0.1),
            ..QueuePolicy::default()
        };
        let said = QueuePolicy {
            attempts_max: 5,
            lease_ttl_ms: 120_000,
            retry: exponential(120_000, 3_600_000, 0.3),
            ..QueuePolicy::default()
        };
        let overlaid = |fields: &[&str]| overlaid(&before, &said, fields).unwrap();
        assert_eq!(overlaid(&[]), before);
        let expected = QueuePolicy {
            attempts_max: 5,
            ..before.clone()
        };
        assert_eq!(overlaid(&["attempts_max"]), expected);
        let expected = QueuePolicy {
            retry: exponential(7, 3_600_000, 0.1),
            ..before.clone()
        };
        assert_eq!(overlaid(&["retry.max_ms"]), expected);
        let fixed = QueuePolicy {
            retry: RetrySchedule::Fixed { delay_ms: 1 },
            ..before.clone()
        };
        let replaced = super::overlaid(&fixed, &said, &["retry.max_ms"]).unwrap();
        assert_eq!(replaced.retry, said.retry);
    }
}
