//! What an answer over HTTP means, where money is at stake: only what is said clearly counts.

use std::{collections::HashMap, time::Duration};

use consign_kernel::Payload;
use consign_outbound::retry_after;
use jiff::Timestamp;
use reqwest::Response;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::{
    classify::DISPATCH_ERROR,
    rail::{Known, RailReply, Submitted},
};

/// An answer longer than this is none.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// The longest wait a rail is granted.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// An answer as far as it could be read.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    /// None if it was too long, broken, late or not JSON, or says something twice.
    body: Option<Payload>,
}

/// Reads an answer to its end, if that comes before `ends` and before it gets too long.
pub(super) async fn read(mut response: Response, ends: Instant) -> Answer {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers(), Timestamp::now());
    let retry_after = retry_after.map(|wait| wait.min(RETRY_AFTER_MAX));
    let mut bytes = Vec::new();
    let body = loop {
        match timeout_at(ends, response.chunk()).await {
            Ok(Ok(Some(chunk))) if bytes.len() + chunk.len() <= BODY_BYTES_MAX => {
                bytes.extend_from_slice(&chunk);
            }
            Ok(Ok(None)) => break read_body(&bytes),
            Ok(_) | Err(_) => break None,
        }
    };
    Answer {
        status,
        retry_after,
        body,
    }
}

/// Numbers keep their digits, and an answer in which a name comes twice is not believed.
fn read_body(bytes: &[u8]) -> Option<Payload> {
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

    /// What a submission came to.
    pub(super) fn submitted(self) -> Submitted {
        let status = self.status;
        if let Some(reply) = self.reply()
            && is_believable(status, &reply)
        {
            return Submitted::Replied(reply);
        }
        match status {
            429 => Submitted::NotNow {
                why: "the rail answered 429".to_owned(),
                retry_in: self.retry_after,
            },
            // The request itself is wrong, and will be the next time.
            400 | 413 | 415 | 422 => Submitted::Replied(RailReply {
                error_code: Some(format!("HTTP_{status}")),
                error_message: Some(format!("the rail answered {status}")),
                retryable: Some(false),
                ..RailReply::default()
            }),
            // A wrong address or wrong credentials: mending them must not find payments failed.
            300..=399 | 401 | 403 | 404 | 405 | 407 | 421 => Submitted::NotSent {
                code: DISPATCH_ERROR,
                why: format!("the rail answered {status}; redirects are not followed"),
            },
            // Everything else may have moved money: a success without a word of it, and whatever a
            // rail in trouble, or a gateway before it, makes of a payment that it has.
            _ => Submitted::Lost {
                code: DISPATCH_ERROR,
                why: format!("the rail answered {status} and did not say what became of it"),
            },
        }
    }

    /// What a rail knows. A bare 404 says that there is no such page, not that there was no payment.
    pub(super) fn known(self) -> Known {
        let status = self.status;
        if self.flag("found") == Some(false) && matches!(status, 200 | 404) {
            return match self.flag("success") {
                Some(true) => Known::CannotTell("the rail contradicts itself".to_owned()),
                _ => Known::NotFound,
            };
        }
        if self.flag("pending") == Some(true) {
            return Known::CannotTell("the rail has it and has not decided".to_owned());
        }
        match self.reply() {
            Some(reply) if status == 200 => Known::Found(reply),
            _ => Known::CannotTell(format!("the rail answered {status} to the question")),
        }
    }
}

/// A yes counts with a status that says yes. A no counts with one that says yes or no: not with
/// those of time, conflicts and defects, where the rail may have the payment and only this request
/// went wrong.
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
            body: body.and_then(|body| read_body(body.to_string().as_bytes())),
        }
    }

    #[test]
    fn a_number_keeps_its_digits_and_what_is_said_twice_is_not_believed() {
        let said = |body: &str| Answer {
            status: 200,
            retry_after: None,
            body: read_body(body.as_bytes()),
        };
        let long = r#"{"success":true,"rail_reference":12345678901234567890123}"#;
        let Submitted::Replied(reply) = said(long).submitted() else {
            panic!("a clear answer")
        };
        let reference = reply.rail_reference.as_deref();
        assert_eq!(reference, Some("12345678901234567890123"));
        for twice in [
            r#"{"success":false,"error_code":"FRAUD_BLOCK","success":true,"rail_reference":"R"}"#,
            r#"{"success":true,"rail_reference":"R-1","railReference":"R-2"}"#,
        ] {
            let submitted = said(twice).submitted();
            assert!(matches!(submitted, Submitted::Lost { .. }), "{submitted:?}");
        }
        let found = said(r#"{"found":false,"found":true,"success":true}"#).known();
        assert!(matches!(found, Known::CannotTell(_)), "{found:?}");
    }

    /// A 5xx never says no, whatever its body says.
    #[test]
    fn only_what_is_said_clearly_counts() {
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
                Submitted::Replied(_) => "replied",
                Submitted::NotSent { .. } => "not sent",
                Submitted::NotNow { .. } => "not now",
                Submitted::Lost { .. } => "lost",
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
            let word = match answer(status, body.clone()).known() {
                Known::Found(_) => "found",
                Known::NotFound => "not found",
                Known::CannotTell(_) => "cannot tell",
            };
            assert_eq!(word, expected, "{status} {body:?}");
        }
    }
}
