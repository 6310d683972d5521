use std::time::Duration;

use super::*;

#[test]
fn impossible_combinations_are_refused_by_name() {
    type Change = fn(&mut MemoryOptions);
    let table: [(Change, Option<&str>); 16] = [
        (|_| {}, None),
        (|o| o.lease_seconds = 39, Some("lease_seconds")),
        (
            |o| (o.lease_seconds, o.openmemory_timeout_seconds) = (11, 1),
            None,
        ),
        (|o| o.batch_size = 0, Some("batch_size")),
        (|o| o.max_retries = 0, Some("max_retries")),
        (|o| o.gateway_budget_ms = 0, Some("gateway_budget_ms")),
        (
            |o| o.base_backoff_seconds = 3_601,
            Some("base_backoff_seconds"),
        ),
        (|o| o.jitter_factor = 1.1, Some("jitter_factor")),
        (|o| o.jitter_factor = f64::NAN, Some("jitter_factor")),
        (
            |o| o.stale_threshold_seconds = 120,
            Some("stale_threshold_seconds"),
        ),
        (
            |o| (o.pending_audit_timeout_seconds, o.gateway_budget_ms) = (60, 30_000),
            Some("pending_audit_timeout_seconds"),
        ),
        (|o| o.project_key = "a b".into(), Some("project_key")),
        (
            |o| o.private_space_prefix = "team:".into(),
            Some("private_space_prefix"),
        ),
        (
            |o| o.private_space_prefix = "t".into(),
            Some("private_space_prefix"),
        ),
        (
            |o| o.backend = Some(BackendKind::Openmemory),
            Some("openmemory_base_url"),
        ),
        (
            |o| o.openmemory_timeout_seconds = 601,
            Some("openmemory_timeout_seconds"),
        ),
    ];
    for (index, (change, key)) in table.into_iter().enumerate() {
        let mut options = MemoryOptions::default();
        change(&mut options);
        let refusal = options.validate().err().map(|error| error.to_string());
        match (&refusal, key) {
            (None, None) => {}
            (Some(why), Some(key)) if why.starts_with(&format!("memory.{key}:")) => {}
            _ => panic!("case {index}: {refusal:?}, expected {key:?}"),
        }
    }
}

/// 120, 240, 480, 960, 1920, 3600, 3600 s, and 30 % either way.
#[test]
fn delays_follow_the_protocol() {
    let policy = queue_policy(&MemoryOptions::default());
    policy.validate().unwrap();
    for (tries, seconds) in (1..).zip([120, 240, 480, 960, 1920, 3600, 3600]) {
        let delay = policy.retry.delay(tries, 0.5);
        assert_eq!(delay, Duration::from_secs(seconds), "after try {tries}");
    }
    let bounds = [
        (1, 84, 156),
        (2, 168, 312),
        (3, 336, 624),
        (4, 672, 1_248),
        (5, 1_344, 2_496),
        (6, 2_520, 4_680),
        (7, 2_520, 4_680),
        (u32::MAX, 2_520, 4_680),
    ];
    for (tries, least, most) in bounds {
        assert_eq!(policy.retry.delay(tries, 0.0).as_secs(), least);
        assert!(policy.retry.delay(tries, 0.999_999).as_secs() < most);
    }
    assert_eq!(policy.attempts_max, 5);
    assert_eq!(policy.lease_ttl(), Duration::from_secs(120));
    assert_eq!(policy.concurrency, 1);
    assert!(policy.begins());
}

#[test]
fn an_address_is_enough_to_choose_the_server() {
    let mut options = MemoryOptions::default();
    assert_eq!(options.backend(), BackendKind::Embedded);
    options.openmemory_base_url = Some("http://127.0.0.1:8080".into());
    assert_eq!(options.backend(), BackendKind::Openmemory);
    options.backend = Some(BackendKind::Embedded);
    assert_eq!(options.backend(), BackendKind::Embedded);
}

#[test]
fn names_of_settings_are_those_of_the_documents() {
    let document = serde_json::json!({
        "project_key": "p", "openmemory_dialect": "js_head", "unknown_actor_policy": "auto_create",
        "backend": "openmemory", "openmemory_base_url": "http://h", "skip_reconcile": true,
    });
    let options: MemoryOptions = MEMORY.options(document).unwrap();
    assert_eq!(options.team_space(), "team:p");
    assert_eq!(options.openmemory_dialect, Dialect::JsHead);
    assert_eq!(options.unknown_actor_policy, UnknownActorPolicy::AutoCreate);
    assert_eq!(
        options.skipped().into_iter().collect::<Vec<_>>(),
        ["reconcile"]
    );
    let stranger = serde_json::json!({"skip_everything": true});
    assert!(MEMORY.options::<MemoryOptions>(stranger).is_err());
}
