//! Interprets HTTP answers of rails. Only unambiguous answers count, because money is at stake.

use std::{collections::HashMap, time::Duration};

use consign_kernel::Payload;
use consign_outbound::{ReadLimit, read_body, retry_after};
use jiff::Timestamp;
use reqwest::Response;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::{
    classify::DISPATCH_ERROR,
    rail::{RailLookup, RailReply, SubmitResult},
};

/// Longer answers are treated as unreadable.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Upper bound of a rail's Retry-After.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// An answer as far as it is readable.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    /// `None` if it was too long, truncated, late, not JSON, or has repeated names.
    body: Option<Payload>,
}

/// Reads the answer to its end, within `ends` and the size limit.
pub(super) async fn read(response: Response, ends: Instant) -> Answer {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers(), Timestamp::now());
    let retry_after = retry_after.map(|wait| wait.min(RETRY_AFTER_MAX));
    let body = read_body(response, BODY_BYTES_MAX, ReadLimit::Until(ends)).await;
    let body = body.complete().ok().and_then(|bytes| parse_body(&bytes));
    Answer {
        status,
        retry_after,
        body,
    }
}

/// Numbers keep their digits; an answer with repeated names is unreadable.
fn parse_body(bytes: &[u8]) -> Option<Payload> {
    Payload::parse(str::from_utf8(bytes).ok()?).ok()
}

impl Answer {
    fn reply(&self) -> Option<RailReply> {
        serde_json::from_str(self.body.as_ref()?.as_str()).ok()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        let fields: HashMap<String, &RawValue> =
            serde_json::from_str(self.body.as_ref()?.as_str()).ok()?;
        serde_json::from_str(fields.get(name)?.get()).ok()
    }

    /// The result of a submission.
    pub(super) fn submitted(self) -> SubmitResult {
        let status = self.status;
        if let Some(reply) = self.reply()
            && is_believable(status, &reply)
        {
            return SubmitResult::Replied(reply);
        }
        match status {
            429 => SubmitResult::NotNow {
                why: "the rail answered 429".to_owned(),
                retry_in: self.retry_after,
            },
            // The request is invalid, and will be on every retry.
            400 | 413 | 415 | 422 => SubmitResult::Replied(RailReply {
                error_code: Some(format!("HTTP_{status}")),
                error_message: Some(format!("the rail answered {status}")),
                retryable: Some(false),
                ..RailReply::default()
            }),
            // A wrong address or wrong credentials: a configuration error must not fail payments.
            300..=399 | 401 | 403 | 404 | 405 | 407 | 421 => SubmitResult::NotSent {
                code: DISPATCH_ERROR,
                why: format!("the rail answered {status}; redirects are not followed"),
            },
            // Any other status may have moved money: a success without a body, or an error of a
            // rail or gateway that received the payment.
            _ => SubmitResult::Lost {
                code: DISPATCH_ERROR,
                why: format!("the rail answered {status} without a result"),
            },
        }
    }

    /// The result of a query. A bare 404 means a missing page, not a missing payment.
    pub(super) fn lookup(self) -> RailLookup {
        let status = self.status;
        if self.flag("found") == Some(false) && matches!(status, 200 | 404) {
            return match self.flag("success") {
                Some(true) => {
                    RailLookup::CannotTell("the rail's answer contradicts itself".to_owned())
                }
                _ => RailLookup::NotFound,
            };
        }
        if self.flag("pending") == Some(true) {
            return RailLookup::CannotTell(
                "the rail has the payment and has not decided".to_owned(),
            );
        }
        match self.reply() {
            Some(reply) if status == 200 => RailLookup::Found(reply),
            _ => RailLookup::CannotTell(format!("the rail answered the query with {status}")),
        }
    }
}

/// An acceptance counts with a success status. A rejection counts with a success or client error
/// status, but not with timeouts, conflicts and server errors: there the rail may have the payment
/// and only this request failed.
fn is_believable(status: u16, reply: &RailReply) -> bool {
    match (reply.is_success, status) {
        (_, 200..=299) => true,
        (true, _) => false,
        (false, 408 | 409 | 425 | 429) => false,
        (false, status) => (400..=499).contains(&status),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(status: u16, body: Option<Value>) -> Answer {
        Answer {
            status,
            retry_after: None,
            body: body.and_then(|body| parse_body(body.to_string().as_bytes())),
        }
    }

    #[test]
    fn numbers_keep_their_digits_and_repeated_names_are_unreadable() {
        let answer_of = |body: &str| Answer {
            status: 200,
            retry_after: None,
            body: parse_body(body.as_bytes()),
        };
        let long = r#"{"success":true,"rail_reference":12345678901234567890123}"#;
        let SubmitResult::Replied(reply) = answer_of(long).submitted() else {
            panic!("a clear answer")
        };
        let reference = reply.rail_reference.as_deref();
        assert_eq!(reference, Some("12345678901234567890123"));
        for twice in [
            r#"{"success":false,"error_code":"FRAUD_BLOCK","success":true,"rail_reference":"R"}"#,
            r#"{"success":true,"rail_reference":"R-1","railReference":"R-2"}"#,
        ] {
            let submitted = answer_of(twice).submitted();
            assert!(
                matches!(submitted, SubmitResult::Lost { .. }),
                "{submitted:?}"
            );
        }
        let found = answer_of(r#"{"found":false,"found":true,"success":true}"#).lookup();
        assert!(matches!(found, RailLookup::CannotTell(_)), "{found:?}");
    }

    /// A 5xx is never a rejection, whatever its body contains.
    #[test]
    fn only_unambiguous_answers_count() {
        let yes = || Some(json!({"success": true, "railReference": "R-1"}));
        let no = || Some(json!({"success": false, "error_code": "FRAUD_BLOCK"}));
        let table = [
            (200, yes(), "replied"),
            (201, yes(), "replied"),
            (500, yes(), "lost"),
            (302, yes(), "not sent"),
            (422, no(), "replied"),
            (500, no(), "lost"),
            (501, no(), "lost"),
            (502, no(), "lost"),
            (503, no(), "lost"),
            (504, no(), "lost"),
            (408, no(), "lost"),
            (409, no(), "lost"),
            (425, no(), "lost"),
            (302, no(), "not sent"),
            (400, no(), "replied"),
            (402, no(), "replied"),
            (404, no(), "replied"),
            (501, None, "lost"),
            (200, None, "lost"),
            (200, Some(json!({"ok": true})), "lost"),
            (204, None, "lost"),
            (400, None, "replied"),
            (401, None, "not sent"),
            (404, None, "not sent"),
            (408, None, "lost"),
            (409, None, "lost"),
            (429, no(), "not now"),
            (500, None, "lost"),
            (502, None, "lost"),
        ];
        for (status, body, expected) in table {
            let word = match answer(status, body.clone()).submitted() {
                SubmitResult::Replied(_) => "replied",
                SubmitResult::NotSent { .. } => "not sent",
                SubmitResult::NotNow { .. } => "not now",
                SubmitResult::Lost { .. } => "lost",
            };
            assert_eq!(word, expected, "{status} {body:?}");
        }
    }

    #[test]
    fn a_missing_page_is_not_a_missing_payment() {
        let found = json!({"success": true, "rail_reference": "R-1"});
        let table = [
            (200, Some(found.clone()), "found"),
            (
                200,
                Some(json!({"success": false, "retryable": false})),
                "found",
            ),
            (200, Some(json!({"found": false})), "not found"),
            (
                200,
                Some(json!({"found": false, "success": false})),
                "not found",
            ),
            (
                200,
                Some(json!({"found": false, "success": true})),
                "cannot tell",
            ),
            (404, Some(json!({"found": false})), "not found"),
            (404, None, "cannot tell"),
            (404, Some(json!({"error": "no route"})), "cannot tell"),
            (
                200,
                Some(json!({"found": true, "pending": true})),
                "cannot tell",
            ),
            (200, None, "cannot tell"),
            (500, Some(json!({"found": false})), "cannot tell"),
            (500, Some(found), "cannot tell"),
        ];
        for (status, body, expected) in table {
            let word = match answer(status, body.clone()).lookup() {
                RailLookup::Found(_) => "found",
                RailLookup::NotFound => "not found",
                RailLookup::CannotTell(_) => "cannot tell",
            };
            assert_eq!(word, expected, "{status} {body:?}");
        }
    }
}
