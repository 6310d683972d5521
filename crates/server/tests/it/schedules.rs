//! Schedules over HTTP; `consign-schedule` tests when their ticks come.

use axum::http::Method;
use jiff::{Timestamp, civil::time};
use serde_json::{Value, json};

use crate::bench::{Answer, Bench, on_stores, request};

on_stores!(
    a_schedule_is_put_shown_and_listed,
    a_schedule_is_paused_resumed_run_and_removed,
    bad_schedules_are_refused,
);

async fn put(bench: &Bench, path: &str, body: Value) -> Answer {
    bench.call(request(Method::PUT, path, Some(body))).await
}

fn daily() -> Value {
    json!({
        "queue": "mail", "cron": "0 8 * * *", "time_zone": "Europe/Berlin",
        "payload": {"kind": "daily"}, "reason": "a report"
    })
}

async fn a_schedule_is_put_shown_and_listed(bench: Bench) {
    let none = bench.get("/v1/schedules").await;
    assert_eq!(none.json, json!({"schedules": [], "next": null}));

    let made = put(&bench, "/v1/schedules/daily", daily()).await;
    made.is(200);
    let next: Timestamp = made.json["next_at"].as_str().unwrap().parse().unwrap();
    let local = next.in_tz("Europe/Berlin").unwrap().time();
    assert_eq!(local, time(8, 0, 0, 0));
    assert_eq!(made.json["payload"], json!({"kind": "daily"}));
    assert_eq!(
        (&made.json["missed"], &made.json["missed_max"]),
        (&json!("once"), &json!(1_000))
    );
    let shown = bench.get("/v1/schedules/daily").await;
    assert_eq!(shown.json, made.json);
    put(&bench, "/v1/schedules/weekly", daily()).await.is(200);
    let page = bench.get("/v1/schedules?limit=1").await.json;
    assert_eq!(
        (&page["schedules"][0]["name"], &page["next"]),
        (&json!("daily"), &json!("daily"))
    );
    let rest = bench.get("/v1/schedules?after=daily").await.json;
    assert_eq!(
        (&rest["schedules"][0]["name"], &rest["next"]),
        (&json!("weekly"), &json!(null))
    );
}

async fn a_schedule_is_paused_resumed_run_and_removed(bench: Bench) {
    put(&bench, "/v1/schedules/daily", daily()).await.is(200);
    let act = async |action: &str| {
        let path = format!("/v1/schedules/daily/{action}");
        bench.post(&path, json!({"reason": "a test"})).await
    };
    assert!(act("pause").await.json["paused_at"].is_string());
    assert_eq!(act("resume").await.json["paused_at"], json!(null));
    let ran = act("run").await.json;
    let message = format!("/v1/messages/{}", ran["last_message_id"]);
    let shown = bench.get(&message).await.json;
    assert_eq!(shown["audit"][0]["reason"], "schedule daily: a test");
    act("remove").await.is(200);
    for action in ["pause", "resume", "run", "remove"] {
        act(action).await.is_problem(404, "unknown_schedule");
    }
    let gone = bench.get("/v1/schedules/daily").await;
    gone.is_problem(404, "unknown_schedule");
}

async fn bad_schedules_are_refused(bench: Bench) {
    for (change, text) in [
        (json!({"cron": "61 * * * *"}), "cron: is \"61 * * * *\""),
        (
            json!({"time_zone": "Mars/Olympus"}),
            "time_zone: is \"Mars/Olympus\"",
        ),
        (json!({"headers": {"consign_tick": 1}}), "consign_tick"),
    ] {
        let mut body = daily();
        for (field, value) in change.as_object().unwrap() {
            body[field] = value.clone();
        }
        let refused = put(&bench, "/v1/schedules/daily", body).await;
        refused.is_problem(400, "invalid_input");
        assert!(
            refused.json["detail"].as_str().unwrap().contains(text),
            "{}",
            refused.json
        );
    }
    let mut unknown = daily();
    unknown["missed"] = json!("sometimes");
    let refused = put(&bench, "/v1/schedules/daily", unknown).await;
    refused.is_problem(400, "bad_json");
    let mut nowhere = daily();
    nowhere["queue"] = json!("nowhere");
    let refused = put(&bench, "/v1/schedules/daily", nowhere).await;
    refused.is_problem(404, "unknown_queue");
    let mut silent = daily();
    silent["reason"] = json!(null);
    let refused = put(&bench, "/v1/schedules/daily", silent).await;
    refused.is_problem(400, "reason_required");
    let refused = put(&bench, "/v1/schedules/Daily", daily()).await;
    refused.is_problem(400, "invalid_input");
    assert_eq!(
        bench.get("/v1/schedules").await.json["schedules"],
        json!([])
    );
}
