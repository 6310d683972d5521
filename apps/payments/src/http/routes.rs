//! The routes of payments: their scopes and errors.

use std::time::Duration;

use axum::handler::Handler;
use consign_server::apps::{
    Access, ErrorFormat, Errors, GET, POST, Reach, Route, Routes,
    codes::{self, Meaning},
};

use super::{
    Handlers, INVALID_COMPLETION_STATE, MISSING_RAIL_REFERENCE, TENANT_MISMATCH, figures, payments,
    work,
};

/// Adds routes whose handlers share one state.
pub(super) struct Table<'r> {
    pub(super) routes: &'r mut Routes,
    pub(super) handlers: Handlers,
}

impl Table<'_> {
    fn add<H, T>(&mut self, route: Route, handler: H)
    where
        H: Handler<T, Handlers>,
        T: 'static,
    {
        self.routes.add_with(route, handler, self.handlers.clone());
    }

    pub(super) fn all(&mut self) {
        const LATER: (u16, &str) = (503, "ATTESTATION_DURABILITY_FAILED");
        const WRONG: (u16, &str) = (500, "INTERNAL_ERROR");
        const TAKE: &[(u16, &str)] = &[
            (400, "INVALID_REQUEST"),
            (400, "SCHEMA_VALIDATION_FAILED"),
            (403, "TENANT_MISMATCH"),
            (409, "IDEMPOTENCY_CONFLICT"),
            (413, "PAYLOAD_TOO_LARGE"),
            WRONG,
            LATER,
        ];
        const NOT_HERE: &[&Meaning] = &[codes::NOT_FOUND];
        let errors = |codes| Errors::with_codes(ErrorFormat::Flat, "PaymentFailure", codes);
        let take = Route {
            method: POST,
            path: "/v1/payments",
            access: Access::ENQUEUE,
            reach: Reach::Tenant,
            problems: NOT_HERE,
            errors: errors(TAKE),
            wait_max: Duration::ZERO,
        };
        let read = Route {
            method: GET,
            access: Access::READ_OWN,
            errors: errors(&[WRONG]),
            ..take.clone()
        };
        let list = Route {
            problems: &[codes::NOT_FOUND, codes::BAD_QUERY, TENANT_MISMATCH],
            ..read.clone()
        };
        let show = Route {
            path: "/v1/payments/{outbox_id}",
            ..read.clone()
        };
        self.add(take, payments::take);
        self.add(list, payments::list);
        self.add(show, payments::show);
        self.moves(&read);
        self.leases(&read);
        self.figures(&read);
    }

    fn moves(&mut self, read: &Route) {
        const REASON: &Meaning = codes::REASON_REQUIRED;
        let way = |path, problems| Route {
            method: POST,
            path,
            access: Access::OPERATE,
            problems,
            ..read.clone()
        };
        let requeue = &[REASON, codes::NOT_FOUND, codes::NOT_DEAD];
        let hold = &[REASON, codes::NOT_FOUND, codes::NOT_HOLDABLE];
        let held = &[REASON, codes::NOT_FOUND, codes::NOT_HELD];
        let requeue = way("/v1/payments/{outbox_id}/requeue", requeue);
        let hold = way("/v1/payments/{outbox_id}/hold", hold);
        let release = way("/v1/payments/{outbox_id}/release", held);
        let resolve = way("/v1/payments/{outbox_id}/resolve", held);
        self.add(requeue, payments::requeue);
        self.add(hold, payments::hold);
        self.add(release, payments::release);
        self.add(resolve, payments::resolve);
    }

    /// A claim may return payments of any tenant: not for tokens that are bound to one.
    fn leases(&mut self, read: &Route) {
        const HERE: &Meaning = codes::NOT_FOUND;
        const LOST: &[&Meaning] = &[HERE, codes::LEASE_LOST];
        const MANY: &[&Meaning] = &[HERE, codes::LEASE_LOST, codes::BATCH_TOO_LARGE];
        const SAID: &[&Meaning] = &[
            HERE,
            codes::LEASE_LOST,
            codes::BATCH_TOO_LARGE,
            INVALID_COMPLETION_STATE,
            MISSING_RAIL_REFERENCE,
        ];
        const LATE: &[&Meaning] = &[HERE, codes::BATCH_TOO_LARGE, INVALID_COMPLETION_STATE];
        let way = |path, problems| Route {
            method: POST,
            path,
            access: Access::WORK,
            reach: Reach::AllTenants,
            problems,
            ..read.clone()
        };
        let claim = Route {
            wait_max: self.routes.wait_max(),
            ..way("/v1/payments/claims", &[HERE])
        };
        self.add(claim, work::claim);
        let complete = way("/v1/payments/leases/{token}/complete", SAID);
        self.add(complete, work::complete);
        let hold = way("/v1/payments/leases/{token}/hold", MANY);
        self.add(hold, work::hold);
        let record_late = way("/v1/payments/leases/{token}/late", LATE);
        self.add(record_late, work::record_late);
        let renew = way("/v1/payments/leases/{token}/renew", LOST);
        self.add(renew, work::renew);
        let begin = way("/v1/payments/leases/{token}/begin", MANY);
        self.add(begin, work::begin);
        let release = way("/v1/payments/leases/{token}/release", LOST);
        self.add(release, work::release);
        let repair = way("/v1/payments/repair", &[HERE]);
        self.add(repair, work::repair);
    }

    fn figures(&mut self, read: &Route) {
        let status = Route {
            path: "/v1/payments/status",
            ..read.clone()
        };
        let reconcile = Route {
            path: "/v1/payments/reconcile",
            access: Access::READ,
            reach: Reach::AllTenants,
            problems: &[codes::NOT_FOUND, codes::BAD_QUERY],
            ..read.clone()
        };
        self.add(status, figures::status);
        self.add(reconcile, figures::reconcile);
    }
}
