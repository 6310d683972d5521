use std::time::Duration;

use consign_kernel::{OnUncertain, RetrySchedule};
use serde_json::json;

use super::*;

fn options(changes: serde_json::Value) -> OrdersOptions {
    ORDERS.options(changes).unwrap()
}

fn http(changes: serde_json::Value) -> OrdersOptions {
    let mut all = json!({"broker_adapter": "http", "broker_url": "http://127.0.0.1:9/orders"});
    let object = all.as_object_mut().unwrap();
    object.extend(changes.as_object().unwrap().clone());
    options(all)
}

/// Except `outbox_enabled`, which is on here.
#[test]
fn the_defaults_are_those_of_the_specification() {
    let defaults = options(json!({}));
    assert_eq!(defaults, OrdersOptions::default());
    defaults.validate().unwrap();
    assert!(defaults.outbox_enabled);
    assert_eq!(
        (defaults.outbox_concurrency, defaults.outbox_batch),
        (4, 32)
    );
    assert_eq!(defaults.outbox_poll_interval_sec, 0.5);
    assert_eq!((defaults.rl_rate_per_min, defaults.rl_burst), (60, 30));
    assert_eq!(
        (defaults.daily_quota, defaults.idempo_ttl_hours),
        (10_000, 48)
    );
    assert_eq!(defaults.broker_timeout_ms, 2_500);
    let policy = queue_policy(&defaults);
    assert_eq!(policy.lease_ttl(), Duration::from_secs(120));
    assert_eq!((policy.attempts_max, policy.concurrency), (6, 4));
    assert!(policy.begins(), "a crash after the send began is uncertain");
    assert!(policy.timeout() > Duration::from_millis(5_000));
}

/// 5, 10, 20, 40, 80 s; the sixth failure aborts.
#[test]
fn delays_follow_the_table() {
    let RetrySchedule::Table { delays_ms } = queue_policy(&OrdersOptions::default()).retry else {
        panic!("orders are retried by a table");
    };
    assert_eq!(delays_ms[..5], [5_000, 10_000, 20_000, 40_000, 80_000]);
    assert_eq!(delays_ms[..5].iter().sum::<u64>(), 155_000);
}

/// What may have been executed is sent again only where that is safe.
#[test]
fn an_order_in_doubt_is_resent_queried_or_held() {
    let asks = json!({"broker_takes_keys": false, "broker_status_url": "http://127.0.0.1:9/{key}"});
    let table = [
        (options(json!({})), OnUncertain::Resend),
        (http(json!({})), OnUncertain::Resend),
        (http(asks), OnUncertain::Probe),
        (http(json!({"broker_takes_keys": false})), OnUncertain::Hold),
        (
            http(json!({"broker_takes_keys": false, "broker_status_url": ""})),
            OnUncertain::Hold,
        ),
    ];
    for (options, expected) in table {
        options.validate().unwrap();
        assert_eq!(queue_policy(&options).on_uncertain, expected, "{options:?}");
    }
}

#[test]
fn rejects_invalid_settings_by_name() {
    let table = [
        (json!({"outbox_concurrency": 0}), "outbox_concurrency"),
        (json!({"outbox_batch": 0}), "outbox_batch"),
        (json!({"outbox_batch": 1_001}), "outbox_batch"),
        (json!({"outbox_max_attempts": 0}), "outbox_max_attempts"),
        (
            json!({"outbox_lock_lease_sec": 0.1}),
            "outbox_lock_lease_sec",
        ),
        (
            json!({"outbox_lock_lease_sec": 1e9}),
            "outbox_lock_lease_sec",
        ),
        (
            json!({"outbox_poll_interval_sec": 0.0}),
            "outbox_poll_interval_sec",
        ),
        (json!({"outbox_backoff_sec": []}), "outbox_backoff_sec"),
        (json!({"outbox_backoff_sec": [5, -1]}), "outbox_backoff_sec"),
        (json!({"broker_timeout_ms": 0}), "broker_timeout_ms"),
        (
            json!({"broker_timeout_fok_gtc_ms": 0}),
            "broker_timeout_fok_gtc_ms",
        ),
        (json!({"broker_adapter": "http"}), "broker_url"),
        (json!({"broker_url": "http://127.0.0.1:9"}), "broker_url"),
        (json!({"broker_takes_keys": false}), "broker_takes_keys"),
        (json!({"breaker_calls": 65}), "breaker_calls"),
        (json!({"breaker_share": 1.5}), "breaker_share"),
        (json!({"rl_burst": 0}), "rl_burst"),
        (json!({"idempo_ttl_hours": 0}), "idempo_ttl_hours"),
        (
            json!({"idempo_ttl_hours": 1, "order_max_age_sec": 3_601}),
            "order_max_age_sec",
        ),
        (json!({"wait_max_sec": -1.0}), "wait_max_sec"),
    ];
    for (changes, key) in table {
        let error = options(changes.clone()).validate().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("orders.{key}: ")),
            "{changes}: {error}"
        );
    }
    for accepted in [
        json!({"rl_rate_per_min": 0, "rl_burst": 0, "daily_quota": 0, "order_max_age_sec": 0}),
        // Renewals keep a lease alive however long the broker takes.
        json!({"outbox_lock_lease_sec": 1, "broker_timeout_ms": 30_000}),
    ] {
        let validated = options(accepted.clone()).validate();
        assert!(validated.is_ok(), "{accepted}: {validated:?}");
    }
    assert!(
        ORDERS
            .options::<OrdersOptions>(json!({"outbox_batches": 1}))
            .is_err()
    );
}

#[test]
fn secrets_are_not_shown() {
    let options = options(json!({"broker_api_key": "tulip", "idempo_secret": "rose"}));
    let shown = format!("{options:?}{}", serde_json::to_string(&options).unwrap());
    assert!(
        !shown.contains("tulip") && !shown.contains("rose"),
        "{shown}"
    );
    let with_query = http(json!({"broker_url": "https://host:1/a/tulip?key=rose"}));
    assert_eq!(with_query.destination(), "https://host:1");
}

#[test]
fn credentials_are_read_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, " tulip\n").unwrap();
    let options = OrdersOptions {
        broker_api_key_file: Some(file.clone()),
        ..OrdersOptions::default()
    };
    let read = options.clone().with_files().unwrap();
    assert_eq!(read.broker_api_key.as_ref().unwrap().reveal(), "tulip");
    assert_eq!(read.clone().with_files().unwrap(), read, "read once");
    let both = OrdersOptions {
        broker_api_key: Some("rose".to_owned().into()),
        ..options.clone()
    };
    let error = both.with_files().unwrap_err().to_string();
    assert!(error.starts_with("orders.broker_api_key_file: "), "{error}");
    std::fs::write(&file, "\n").unwrap();
    let error = options.clone().with_files().unwrap_err().to_string();
    assert!(error.contains("is empty"), "{error}");
    std::fs::remove_file(&file).unwrap();
    let error = options.with_files().unwrap_err().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}
