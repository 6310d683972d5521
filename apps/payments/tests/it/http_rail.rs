//! The http rail: what it sends, and what it makes of answers, silence and broken lines.

use std::time::Duration;

use consign_kernel::Fence;
use consign_payments::{
    DISPATCH_ERROR, DISPATCH_TIMEOUT, Dispatch, HttpRail, OutboxId, PaymentsOptions, Rail,
    RailLookup, RailReply, Secret, SubmitResult,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Act, FakeRail, answer};

const ID: OutboxId = OutboxId(Uuid::from_u128(0x7));
const LIMIT: Duration = Duration::from_millis(300);

pub(crate) fn dispatch() -> Dispatch {
    Dispatch {
        reference: ID,
        amount_minor: 9_007_199_254_740_993,
        currency: "ZMW".to_owned(),
        destination: "acc-9".to_owned(),
        instruction_id: "ins-1".to_owned(),
        participant_id: "bank-a".to_owned(),
        sequence_id: 3,
        rail_type: "PAYMENT".to_owned(),
        tenant_id: None,
        payload: json!({"note": "x"}).into(),
        attempt_no: 2,
        fence: Fence(41),
    }
}

fn accepted() -> RailReply {
    RailReply {
        is_success: true,
        rail_reference: Some("R-1".to_owned()),
        ..RailReply::default()
    }
}

#[tokio::test]
async fn a_request_carries_its_reference_and_exact_amount() {
    let rail = FakeRail::start([answer(
        200,
        json!({"success": true, "railReference": "R-1"}),
    )])
    .await;
    let options = PaymentsOptions {
        rail_token: Some(Secret::new("tulip")),
        rail_key_header: "X-Idempotency-Key".to_owned(),
        ..rail.options()
    };
    let http = HttpRail::new(&options).unwrap();
    let submitted = http.submit(&dispatch(), LIMIT).await;
    assert_eq!(submitted, SubmitResult::Replied(accepted()));
    assert!(!format!("{http:?}").contains("tulip"));

    let request = rail.requests().await.remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /pay HTTP/1.1"), "{head}");
    let head = head.to_ascii_lowercase();
    for line in [
        format!("x-idempotency-key: {ID}"),
        "consign-fence: 41".to_owned(),
        "consign-attempt: 2".to_owned(),
        "authorization: bearer tulip".to_owned(),
        "content-type: application/json".to_owned(),
    ] {
        assert!(head.contains(&line), "{line} in {head}");
    }
    assert!(
        body.contains(r#""amount_minor":9007199254740993"#),
        "{body}"
    );
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["reference"], ID.to_string());
    assert_eq!(body["payload"], json!({"note": "x"}));
    assert_eq!(body.get("fence"), None);
}

/// Whether the request has left decides what a failure means.
#[tokio::test]
async fn silence_and_broken_lines_are_uncertain_once_it_has_left() {
    for (act, code) in [
        (Act::Silence, DISPATCH_TIMEOUT),
        (Act::HangUp, DISPATCH_ERROR),
    ] {
        let rail = FakeRail::start([act.clone()]).await;
        let http = HttpRail::new(&rail.options()).unwrap();
        match http.submit(&dispatch(), LIMIT).await {
            SubmitResult::Lost { code: reported, .. } => assert_eq!(reported, code, "{act:?}"),
            other => panic!("{act:?}: {other:?}"),
        }
        assert_eq!(rail.requests().await.len(), 1, "never sent twice by itself");
    }
    // The port was just released, so nothing listens there.
    let closed = FakeRail::start([]).await.options();
    let nobody = PaymentsOptions {
        rail_url: Some("http://127.0.0.1:1/pay".to_owned()),
        ..closed
    };
    let http = HttpRail::new(&nobody).unwrap();
    let submitted = http.submit(&dispatch(), LIMIT).await;
    assert!(
        matches!(
            &submitted,
            SubmitResult::NotSent {
                code: DISPATCH_ERROR,
                ..
            }
        ),
        "{submitted:?}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_an_endless_answer_not_read() {
    let elsewhere = Act::Answer(302, "location: http://127.0.0.1:1/\r\n", String::new());
    let endless = Act::Answer(200, "", "x".repeat(300 * 1024));
    let busy = Act::Answer(429, "retry-after: 7\r\n", String::new());
    let rail = FakeRail::start([elsewhere, endless, busy]).await;
    let http = HttpRail::new(&rail.options()).unwrap();
    let first = http.submit(&dispatch(), LIMIT).await;
    assert!(matches!(first, SubmitResult::NotSent { .. }), "{first:?}");
    let second = http.submit(&dispatch(), LIMIT).await;
    assert!(matches!(second, SubmitResult::Lost { .. }), "{second:?}");
    let third = http.submit(&dispatch(), LIMIT).await;
    let wait = Some(Duration::from_secs(7));
    assert!(
        matches!(third, SubmitResult::NotNow { retry_in, .. } if retry_in == wait),
        "{third:?}"
    );
}

#[tokio::test]
async fn a_rail_is_queried_by_reference() {
    let rail = FakeRail::start([
        answer(200, json!({"success": true, "rail_reference": "R-1"})),
        answer(404, json!({"found": false})),
        Act::Answer(404, "", "no such page".to_owned()),
        Act::Silence,
    ])
    .await;
    let http = HttpRail::new(&rail.options()).unwrap();
    assert_eq!(http.query(ID, LIMIT).await, RailLookup::Found(accepted()));
    assert_eq!(http.query(ID, LIMIT).await, RailLookup::NotFound);
    for why in ["a page that is not there", "silence"] {
        let known = http.query(ID, LIMIT).await;
        assert!(
            matches!(known, RailLookup::CannotTell(_)),
            "{why}: {known:?}"
        );
    }
    let requests = rail.requests().await;
    assert!(requests[0].starts_with(&format!("GET /pay/{ID} HTTP/1.1")));
}

#[test]
fn addresses_that_cannot_be_meant_are_refused() {
    let good = || PaymentsOptions {
        rail: consign_payments::RailKind::Http,
        rail_url: Some("https://rail.example/pay".to_owned()),
        rail_status_url: Some("https://rail.example/pay/{reference}".to_owned()),
        ..PaymentsOptions::default()
    };
    HttpRail::new(&good()).unwrap();
    type Change = fn(&mut PaymentsOptions);
    let table: [(Change, &str); 6] = [
        (|o| o.rail_url = Some("rail.example".into()), "rail_url"),
        (
            |o| o.rail_url = Some("file:///etc/passwd".into()),
            "rail_url",
        ),
        (
            |o| o.rail_status_url = Some("https://rail.example/pay".into()),
            "rail_status_url",
        ),
        (
            |o| o.rail_status_url = Some("https://{reference}.example/".into()),
            "rail_status_url",
        ),
        (
            |o| o.rail_key_header = "two words".into(),
            "rail_key_header",
        ),
        (
            |o| o.rail_ca_file = Some("/nowhere.pem".into()),
            "rail_ca_file",
        ),
    ];
    for (change, key) in table {
        let mut options = good();
        change(&mut options);
        let error = HttpRail::new(&options).unwrap_err().to_string();
        assert!(error.starts_with(&format!("payments.{key}:")), "{error}");
    }
}
