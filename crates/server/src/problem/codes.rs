//! Every code an answer of this API may carry, with its status. Codes are interface.
//!
//! Titles and remedies are here. The detail of an error of a store is in `kernel/src/error.rs`, of an
//! answer in `routes/leases.rs` and `routes/messages.rs`. 409 is `CONFLICT`, 422 `UNPROCESSABLE_ENTITY`.

use axum::http::StatusCode;

/// The meaning of a code.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// The code, as in answers and in `/problems/{code}`.
    pub code: &'static str,
    /// Its HTTP status.
    pub status: StatusCode,
    /// What happened, in a few words.
    pub title: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $status:ident $title:literal $remedy:literal)*) => {
        $(#[doc = $title]
        pub const $name: &Meaning = &Meaning {
            code: $code,
            status: StatusCode::$status,
            title: $title,
            remedy: $remedy,
        };)*
        /// All of them.
        pub const ALL: &[&Meaning] = &[$($name),*];
    };
}

codes! {
    // Of the stores.
    UNKNOWN_QUEUE "unknown_queue" NOT_FOUND
        "the queue does not exist" "create it with PUT /v1/queues/{queue}, or correct the name"
    KEY_CONFLICT "key_conflict" UNPROCESSABLE_ENTITY
        "the key was used for another message" "use a new key, or send the same payload and group"
    PAYLOAD_TOO_LARGE "payload_too_large" PAYLOAD_TOO_LARGE
        "the payload is larger than its queue allows" "send a reference, or raise the queue's payload_max_bytes"
    INVALID_INPUT "invalid_input" BAD_REQUEST
        "a value cannot be accepted" "correct the value that the detail names"
    QUEUE_NOT_EMPTY "queue_not_empty" CONFLICT
        "the queue has unfinished messages" "drain the queue before changing `ordered`"
    APP_NOT_ENABLED "app_not_enabled" CONFLICT
        "the queue belongs to an app that this process does not have" "enable the app, or use a process that has it"
    UNKNOWN_REDRIVE "unknown_redrive" NOT_FOUND
        "the redrive does not exist" "GET /v1/redrives lists them"
    UNKNOWN_SCHEDULE "unknown_schedule" NOT_FOUND
        "the schedule does not exist" "GET /v1/schedules lists them"
    UNKNOWN_LEASE "unknown_lease" NOT_FOUND
        "no lease token has this prefix" "GET /v1/leases lists them"
    SCHEMA_MISMATCH "schema_mismatch" SERVICE_UNAVAILABLE
        "the database's schema does not fit" "an operator runs `consign migrate`, or a newer program"
    FORBIDDEN "forbidden" INTERNAL_SERVER_ERROR
        "the server's database role lacks a right" "an operator grants the role; the server's log names it"
    DATABASE_UNAVAILABLE "database_unavailable" SERVICE_UNAVAILABLE
        "the database is not available" "repeat after Retry-After; `outcome` is `unknown` if it may have happened"
    LOCKED "locked" SERVICE_UNAVAILABLE
        "another transaction holds a lock on the same key or row" "repeat after Retry-After; nothing was written"
    CORRUPT "corrupt" INTERNAL_SERVER_ERROR
        "the database is inconsistent" "an operator runs `consign doctor`"

    // Of leases.
    LEASE_LOST "lease_lost" CONFLICT
        "the lease expired or the token is unknown" "stop working on its messages and claim again; another worker may hold them"
    NOT_IN_LEASE "not_in_lease" CONFLICT
        "the lease does not hold these messages" "report only messages of this lease"

    // Of tenants.
    TENANT_BOUND "tenant_bound" FORBIDDEN
        "the token is bound to a tenant, and this endpoint has no tenant filter" "use a token that is bound to no tenant"


    // Of operator actions.
    NO_SUCH_MESSAGE "no_such_message" NOT_FOUND
        "the message does not exist" "correct the id"
    NOT_DEAD "not_dead" CONFLICT
        "only dead messages can be requeued" "`state` has its current state"
    NOT_HELD "not_held" CONFLICT
        "only held messages can be unheld or resolved" "`state` has its current state"
    NOT_HOLDABLE "not_holdable" CONFLICT
        "only ready and waiting messages can be held" "`state` has its current state"
    NOT_DISCARDABLE "not_discardable" CONFLICT
        "only dead and held messages can be discarded" "`state` has its current state; cancel a ready or waiting one, wait for the result of a leased one or end its lease"
    NOT_CANCELLABLE "not_cancellable" CONFLICT
        "only ready and waiting messages can be cancelled" "`state` has its current state; discard a dead or held one, wait for the result of a leased one or end its lease"
    EMPTY_GROUP "empty_group" NOT_FOUND
        "the group has no head: nothing of it is unfinished" "correct the group; the page of a message has it"
    ERASED "erased" CONFLICT
        "the content of the message was erased: there is nothing to send" "enqueue a new message"
    NOT_FINAL "not_final" CONFLICT
        "only delivered, dead and discarded messages can be erased" "`state` has its current state; wait until it is finished, or hold and resolve it"
    BLOCKS_GROUP "blocks_group" CONFLICT
        "the message is dead and its group waits for it to be delivered" "requeue or discard it; then erase it"
    NEEDED "needed" CONFLICT
        "the app of the queue needs the content until something unfinished ends" "see the app's page: a payment is compared with the rail's records first"
    APP_QUEUE "app_queue" CONFLICT
        "the queue belongs to an app that has no such operation, or is off here" "enable the app, or use its own commands; its page names them, and what removes its content"
    PAYLOAD_HIDDEN "payload_hidden" FORBIDDEN
        "the dashboard does not show payloads to this visitor" "log in with the scope operator, or change server.dashboard_payloads"
    REASON_REQUIRED "reason_required" BAD_REQUEST
        "an operator's action needs a reason" "add `reason`: the audit log records it"

    // Of requests.
    BAD_JSON "bad_json" BAD_REQUEST
        "the body cannot be read" "correct it at the position in the detail"
    UNKNOWN_FIELD "unknown_field" BAD_REQUEST
        "the body has an unknown field" "correct the name or leave the field out"
    BAD_QUERY "bad_query" BAD_REQUEST
        "the query cannot be read" "correct the parameter that the detail names"
    KEY_MISMATCH "key_mismatch" BAD_REQUEST
        "two different keys were given" "give the key in the Idempotency-Key header or in the body"
    BATCH_TOO_LARGE "batch_too_large" PAYLOAD_TOO_LARGE
        "too many messages in one batch" "send several batches"
    BODY_TOO_LARGE "body_too_large" PAYLOAD_TOO_LARGE
        "the body is too large" "send less at once, or raise server.body_max_bytes"
    UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE
        "the body is not declared as JSON, or it is compressed" "send Content-Type: application/json and no Content-Encoding"
    NOT_FOUND "not_found" NOT_FOUND
        "there is nothing at this path" "GET / and GET /openapi.json list the paths"
    METHOD_NOT_ALLOWED "method_not_allowed" METHOD_NOT_ALLOWED
        "this path has other methods" "use one of the Allow header"

    // Of access.
    UNAUTHORIZED "unauthorized" UNAUTHORIZED
        "a token is needed" "send Authorization: Bearer with a token of server.tokens"
    SCOPE_MISSING "scope_missing" FORBIDDEN
        "the token lacks the scope" "use a token with one of the scopes named"
    NOT_LOCAL "not_local" FORBIDDEN
        "without tokens, only callers on this machine are served" "configure server.tokens and send one"
    HOST_NOT_ALLOWED "host_not_allowed" FORBIDDEN
        "the host name is not one of this server's" "call it by address, or add the name to server.allowed_hosts"

    ORIGIN_NOT_ALLOWED "origin_not_allowed" FORBIDDEN
        "this web page may not call" "configure tokens, or add the page's host to server.allowed_hosts"

    CSRF_MISMATCH "csrf_mismatch" FORBIDDEN
        "the form does not belong to this session" "open the page again and send its form"

    // Of limits.
    RATE_LIMITED "rate_limited" TOO_MANY_REQUESTS
        "too many requests" "repeat after Retry-After"
    OVERLOADED "overloaded" SERVICE_UNAVAILABLE
        "too many requests at once" "repeat after Retry-After"
    BODY_TIMEOUT "body_timeout" REQUEST_TIMEOUT
        "the body came too slowly" "send it faster, or less of it"
    REQUEST_TIMEOUT "request_timeout" GATEWAY_TIMEOUT
        "the request took too long" "repeat it; `outcome` is `unknown` if it may have happened"
    INTERNAL "internal" INTERNAL_SERVER_ERROR
        "internal error: a defect in the server" "the server's log has the details"
}

/// What the code of a store's error means here.
pub fn of_store(error: &consign_kernel::Error) -> &'static Meaning {
    find(error.code()).unwrap_or(INTERNAL)
}

/// The meaning of a code.
pub fn find(code: &str) -> Option<&'static Meaning> {
    ALL.iter().copied().find(|meaning| meaning.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_stores_call_errors_has_a_status() {
        let unknown = consign_kernel::Error::invalid("a", "b");
        assert_eq!(of_store(&unknown).code, "invalid_input");
        let kernel = include_str!("../../../kernel/src/error.rs");
        let (_, table) = kernel.split_once("fn code(").unwrap();
        let codes = table.split("=> \"").skip(1);
        // No request migrates.
        let codes = codes.filter_map(|rest| rest.split('"').next());
        for code in codes.filter(|code| *code != "migration_failed") {
            assert!(find(code).is_some(), "{code} has no status");
        }
    }
}
