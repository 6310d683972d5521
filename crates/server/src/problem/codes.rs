//! Every code an answer of this API may carry, with its status. Codes are interface.

use axum::http::StatusCode;

/// What a code means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meaning {
    /// The code, as in answers and in `/problems/{code}`.
    pub(crate) code: &'static str,
    /// Its HTTP status.
    pub(crate) status: StatusCode,
    /// What happened, in a few words.
    pub(crate) title: &'static str,
    /// What to do about it.
    pub(crate) remedy: &'static str,
}

macro_rules! codes {
    ($($name:ident $code:literal $status:ident $title:literal $remedy:literal)*) => {
        $(pub(crate) const $name: &Meaning = &Meaning {
            code: $code,
            status: StatusCode::$status,
            title: $title,
            remedy: $remedy,
        };)*
        /// All of them.
        pub(crate) const ALL: &[&Meaning] = &[$($name),*];
    };
}

codes! {
    // Of the stores.
    UNKNOWN_QUEUE "unknown_queue" NOT_FOUND
        "the queue does not exist" "create it with PUT /v1/queues/{queue}, or mend the name"
    KEY_CONFLICT "key_conflict" UNPROCESSABLE_ENTITY
        "the key was used for another message" "use a new key, or send what was sent before"
    PAYLOAD_TOO_LARGE "payload_too_large" PAYLOAD_TOO_LARGE
        "the payload is larger than its queue allows" "send a reference, or raise the queue's payload_max_bytes"
    INVALID_INPUT "invalid_input" BAD_REQUEST
        "a value cannot be accepted" "mend the value the detail names"
    QUEUE_NOT_EMPTY "queue_not_empty" CONFLICT
        "the queue has unfinished messages" "drain the queue before changing `ordered` or `on_dead`"
    APP_NOT_ENABLED "app_not_enabled" CONFLICT
        "the queue belongs to an app that this process does not have" "enable the app, or use a process that has it"
    UNKNOWN_REDRIVE "unknown_redrive" NOT_FOUND
        "there is no such redrive" "GET /v1/redrives lists them"
    UNKNOWN_LEASE "unknown_lease" NOT_FOUND
        "no lease has a token that begins so" "GET /v1/leases lists them"
    SCHEMA_MISMATCH "schema_mismatch" SERVICE_UNAVAILABLE
        "the database's schema does not fit" "an operator runs `consign migrate`, or a newer program"
    FORBIDDEN "forbidden" INTERNAL_SERVER_ERROR
        "the database refused the server's role" "an operator grants the role what it needs"
    DATABASE_UNAVAILABLE "database_unavailable" SERVICE_UNAVAILABLE
        "the database is not available" "repeat after Retry-After; `outcome` says whether it may have happened"
    LOCKED "locked" SERVICE_UNAVAILABLE
        "another transaction holds the same key or row" "repeat after Retry-After; nothing was written"
    CORRUPT "corrupt" INTERNAL_SERVER_ERROR
        "the database holds something unexpected" "an operator runs `consign doctor`"

    // Of leases.
    LEASE_LOST "lease_lost" CONFLICT
        "the lease expired or the token is unknown" "stop working on its messages and claim again; another worker may hold them"
    NOT_IN_LEASE "not_in_lease" CONFLICT
        "the lease does not hold these messages" "report only messages of this lease"

    // Of payments.
    TENANT_MISMATCH "tenant_mismatch" FORBIDDEN
        "the token belongs to another tenant" "use a token of that tenant, or one that is bound to none"

    TENANT_BOUND "tenant_bound" FORBIDDEN
        "the token is bound to a tenant, and this is not divided by tenants" "use a token that payments.tenants binds to none"

    INVALID_COMPLETION_STATE "invalid_completion_state" UNPROCESSABLE_ENTITY
        "no state that a worker can report" "report DISPATCHED, RETRYABLE or FAILED"
    MISSING_RAIL_REFERENCE "missing_rail_reference" UNPROCESSABLE_ENTITY
        "a dispatch without the rail's reference" "hold it with POST /v1/payments/leases/{token}/hold before its lease ends"

    // Of moves by hand.
    NO_SUCH_MESSAGE "no_such_message" NOT_FOUND
        "there is no such message" "mend the id"
    NOT_DEAD "not_dead" CONFLICT
        "only dead messages can be requeued" "`state` says where it is"
    NOT_HELD "not_held" CONFLICT
        "only held messages can be unheld or resolved" "`state` says where it is"
    NOT_HOLDABLE "not_holdable" CONFLICT
        "only ready and waiting messages can be held" "`state` says where it is"
    REASON_REQUIRED "reason_required" BAD_REQUEST
        "an operator's action needs a reason" "add `reason`: the audit keeps it"

    // Of requests.
    BAD_JSON "bad_json" BAD_REQUEST
        "the body cannot be read" "mend it where the detail points"
    UNKNOWN_FIELD "unknown_field" BAD_REQUEST
        "the body has an unknown field" "mend the name or leave it out"
    BAD_QUERY "bad_query" BAD_REQUEST
        "the query cannot be read" "mend the parameter the detail names"
    KEY_MISMATCH "key_mismatch" BAD_REQUEST
        "two different keys were given" "give the key in the Idempotency-Key header or in the body"
    BATCH_TOO_LARGE "batch_too_large" PAYLOAD_TOO_LARGE
        "too many messages in one batch" "send several batches"
    BODY_TOO_LARGE "body_too_large" PAYLOAD_TOO_LARGE
        "the body is too large" "send less at once, or raise server.body_max_bytes"
    UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE
        "the body is not declared as JSON, or it is compressed" "send Content-Type: application/json and no Content-Encoding"
    NOT_FOUND "not_found" NOT_FOUND
        "there is nothing at this path" "GET / and GET /openapi.json say what there is"
    METHOD_NOT_ALLOWED "method_not_allowed" METHOD_NOT_ALLOWED
        "this path has other methods" "use one of the Allow header"

    // Of access.
    UNAUTHORIZED "unauthorized" UNAUTHORIZED
        "a token is needed" "send Authorization: Bearer with a token the server knows"
    SCOPE_MISSING "scope_missing" FORBIDDEN
        "the token is not for this" "use a token with one of the scopes named"
    NOT_LOCAL "not_local" FORBIDDEN
        "without tokens, only callers on this machine are served" "configure server.tokens and send one"
    HOST_NOT_ALLOWED "host_not_allowed" FORBIDDEN
        "the server does not go by this name" "call it by address, or add the name to server.allowed_hosts"

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
        "the request took too long" "repeat it; `outcome` says whether it may have happened"
    INTERNAL "internal" INTERNAL_SERVER_ERROR
        "a defect of the server" "the server's log has the particulars"
}

/// What the code of a store's error means here.
pub(crate) fn of_store(error: &consign_kernel::Error) -> &'static Meaning {
    find(error.code()).unwrap_or(INTERNAL)
}

/// The meaning of a code.
pub(crate) fn find(code: &str) -> Option<&'static Meaning> {
    ALL.iter().copied().find(|meaning| meaning.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_a_row_for_every_code_and_no_other() {
        let document = include_str!("../../../../docs/http.md");
        let (_, table) = document.split_once("| code | status |").unwrap();
        let rows: Vec<&str> = table
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        for meaning in ALL {
            let Meaning {
                code,
                status,
                title,
                remedy,
            } = meaning;
            let row = format!("| `{code}` | {} | {title} | {remedy} |", status.as_u16());
            assert!(rows.contains(&row.as_str()), "docs/http.md lacks: {row}");
        }
        assert_eq!(rows.len(), ALL.len(), "docs/http.md explains what is gone");
    }

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
