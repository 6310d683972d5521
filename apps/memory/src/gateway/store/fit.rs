//! Whether a memory could be deferred: what could not is refused now, not when the memory server is down.

use consign_kernel::Error;
use serde_json::{Map, Value};

use super::{Call, StoreAnswer, context, decide::Refused, unfit::Unfit};
use crate::{NewMemory, queue_policy};

/// The code of a memory that no outbox would take.
pub(super) const INVALID: &str = "OUTBOX_VALIDATION_FAILED";

impl Call {
    /// Refuses a memory that could not be deferred.
    pub(super) fn check_message(&self, memory: &NewMemory) -> Result<(), Refused> {
        let Err(error) = self.validate(memory) else {
            return Ok(());
        };
        let (field, message) = self.unfit_field(memory, &error);
        let sha = memory.payload_sha();
        Err(Box::new(StoreAnswer {
            action: "reject",
            reason: Some(INVALID.to_owned()),
            context: Some(context_of(&memory.target_space, &sha, field)),
            unfit: Some(Unfit {
                reason: INVALID.to_owned(),
                payload_sha: Some(sha),
            }),
            ..self.error(INVALID, message, false)
        }))
    }

    /// The field of the request that an outbox refuses, and why.
    pub(super) fn unfit_field(&self, memory: &NewMemory, error: &Error) -> (&'static str, String) {
        let (field, why) = match error {
            Error::InvalidInput { what, why } if what.ends_with("headers") => (
                self.heaviest(memory),
                format!("the message's headers {why}"),
            ),
            Error::InvalidInput { what, why } if what.ends_with("key") => {
                ("target_space", format!("the message's key {why}"))
            }
            Error::InvalidInput { why, .. } => ("payload_md", why.clone()),
            Error::PayloadTooLarge {
                bytes, bytes_max, ..
            } => {
                let why = format!("is {bytes} bytes as JSON; {bytes_max} are allowed");
                ("payload_md", why)
            }
            error => ("payload_md", error.to_string()),
        };
        (field, format!("{field}: {why}"))
    }

    /// What travels in the headers and would have to be smaller.
    fn heaviest(&self, memory: &NewMemory) -> &'static str {
        let without_meta = NewMemory {
            meta_json: Map::new(),
            ..memory.clone()
        };
        match self.validate(&without_meta) {
            Ok(()) => "meta_json",
            Err(_) => "evidence",
        }
    }

    fn validate(&self, memory: &NewMemory) -> Result<(), Error> {
        let policy = queue_policy(self.service.options());
        memory.message().validate(0, &policy)
    }
}

/// What a refusal was about, with the field of the request.
pub(super) fn context_of(space: &str, sha: &str, field: &str) -> Value {
    let mut context = context(space, sha);
    context["field"] = Value::from(field);
    context
}
