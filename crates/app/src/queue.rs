//! The queue of an app in the database.

use consign_kernel::{By, Error, QueueName, QueuePolicy, Store};
use serde_json::{Value, json};

use crate::config::{Config, Section};

/// The actor of a change of the queue, in the audit.
const ACTOR: &str = "config file";

/// The result of setting the queue.
#[derive(Debug, PartialEq, Eq)]
pub enum PutResult {
    /// It was created, or changed to match the settings.
    Set(QueueName),
    /// Its policy matches the settings, or an operator changed it.
    AsItIs,
    /// It does not exist, and this login may not create it: other processes work it.
    LeftToOthers,
    /// It is there, and this login may not work it.
    NotGranted,
}

/// A queue whose policy follows from a table of settings that has its name.
#[derive(Clone, Debug)]
pub struct OwnQueue {
    /// Its name.
    pub name: QueueName,
    /// What it is created with.
    pub policy: QueuePolicy,
    /// Whether a setting of its table is not a default.
    pub is_set: bool,
    /// The fields of the policy that such settings are about. Of a queue that exists, only these change:
    /// others are set by SQL, by `consign queues set` or by other processes.
    pub policy_fields: Vec<&'static str>,
}

impl OwnQueue {
    /// The queue of the app that a section belongs to.
    pub fn new(name: QueueName, policy: QueuePolicy, section: &Section, config: &Config) -> Self {
        Self {
            is_set: config.is_set(name.as_str()),
            policy_fields: config.policy_fields(section),
            name,
            policy,
        }
    }

    /// Creates the queue, or changes it to match the settings.
    ///
    /// A login that may not is no error where the settings are defaults; otherwise the error names
    /// the remedy.
    pub async fn put(self, store: &dyn Store, config: &Config) -> Result<PutResult, Error> {
        let Self { name, .. } = self;
        if !store.may_work(&name).await? {
            return Ok(PutResult::NotGranted);
        }
        let before = store.queue(&name).await?;
        let policy = match &before {
            Some(before) => overlaid(&before.policy, &self.policy, &self.policy_fields)?,
            None => self.policy,
        };
        if before.as_ref().is_some_and(|it| it.policy == policy) {
            return Ok(PutResult::AsItIs);
        }
        let configured = match &config.file {
            Some(file) => format!("[{name}] of {} sets it", file.display()),
            None => format!("the settings of {name} set it"),
        };
        match store
            .put_queue(&name, &policy, &By::new(ACTOR, &configured))
            .await
        {
            Ok(_) => Ok(PutResult::Set(name)),
            Err(Error::Forbidden { what }) if self.is_set => Err(Error::Forbidden {
                what: format!(
                    "queue {name} differs from [{name}], and changing it needs the role \
                     consign_operator: let an operator start `consign serve` once with these \
                     settings, or set {name}.enabled = false here ({what})"
                ),
            }),
            Err(Error::Forbidden { .. }) if before.is_some() => Ok(PutResult::AsItIs),
            Err(Error::Forbidden { .. }) => Ok(PutResult::LeftToOthers),
            Err(error) => Err(error),
        }
    }
}

/// A policy with some fields of another.
fn overlaid(
    before: &QueuePolicy,
    configured: &QueuePolicy,
    fields: &[&str],
) -> Result<QueuePolicy, Error> {
    let (mut policy, configured) = (json!(before), json!(configured));
    for field in fields {
        match field.split_once('.') {
            // A schedule of another kind has other fields.
            Some((whole, part)) if policy[whole]["kind"] == configured[whole]["kind"] => {
                policy[whole][part] = configured[whole][part].clone();
            }
            Some((whole, _)) => policy[whole] = configured[whole].clone(),
            None => policy[*field] = configured[*field].clone(),
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
    fn only_set_fields_change() {
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
        let configured = QueuePolicy {
            attempts_max: 5,
            lease_ttl_ms: 120_000,
            retry: exponential(120_000, 3_600_000, 0.3),
            ..QueuePolicy::default()
        };
        let overlaid = |fields: &[&str]| overlaid(&before, &configured, fields).unwrap();
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
        let replaced = super::overlaid(&fixed, &configured, &["retry.max_ms"]).unwrap();
        assert_eq!(replaced.retry, configured.retry);
    }
}
