//! The routes of payments.

use std::time::Duration;

use super::{
    Contract, GET, POST, Routes, Way,
    payments::{self, books, work},
};
use crate::{
    gate::access::{Access, Reach},
    problem::codes::{self, Meaning},
};

impl Routes {
    pub(super) fn paying(&mut self) {
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
        let take = Way {
            method: POST,
            path: "/v1/payments",
            access: Access::ENQUEUE,
            reach: Reach::Tenant,
            problems: NOT_HERE,
            contract: Contract::Payments(TAKE),
            patience: Duration::ZERO,
        };
        let read = Way {
            method: GET,
            access: Access::READ_OWN,
            contract: Contract::Payments(&[WRONG]),
            ..take
        };
        let list = Way {
            problems: &[codes::NOT_FOUND, codes::BAD_QUERY, codes::TENANT_MISMATCH],
            ..read
        };
        let show = Way {
            path: "/v1/payments/{outbox_id}",
            ..read
        };
        self.add_way(take, payments::take);
        self.add_way(list, payments::list);
        self.add_way(show, payments::show);
        self.moving_payments(read);
        self.working_on_payments(read);
        self.payment_books(read);
    }

    fn moving_payments(&mut self, read: Way) {
        const REASON: &Meaning = codes::REASON_REQUIRED;
        let way = |path, problems| Way {
            method: POST,
            path,
            access: Access::OPERATE,
            problems,
            ..read
        };
        let requeue = &[REASON, codes::NOT_FOUND, codes::NOT_DEAD];
        let hold = &[REASON, codes::NOT_FOUND, codes::NOT_HOLDABLE];
        let held = &[REASON, codes::NOT_FOUND, codes::NOT_HELD];
        let requeue = way("/v1/payments/{outbox_id}/requeue", requeue);
        let hold = way("/v1/payments/{outbox_id}/hold", hold);
        let release = way("/v1/payments/{outbox_id}/release", held);
        let resolve = way("/v1/payments/{outbox_id}/resolve", held);
        self.add_way(requeue, payments::requeue);
        self.add_way(hold, payments::hold);
        self.add_way(release, payments::release);
        self.add_way(resolve, payments::resolve);
    }

    /// Whoever claims may get anybody's payment: not for tokens that are bound to a tenant.
    fn working_on_payments(&mut self, read: Way) {
        const HERE: &Meaning = codes::NOT_FOUND;
        const LOST: &[&Meaning] = &[HERE, codes::LEASE_LOST];
        const MANY: &[&Meaning] = &[HERE, codes::LEASE_LOST, codes::BATCH_TOO_LARGE];
        const SAID: &[&Meaning] = &[
            HERE,
            codes::LEASE_LOST,
            codes::BATCH_TOO_LARGE,
            codes::INVALID_COMPLETION_STATE,
            codes::MISSING_RAIL_REFERENCE,
        ];
        const LATE: &[&Meaning] = &[
            HERE,
            codes::BATCH_TOO_LARGE,
            codes::INVALID_COMPLETION_STATE,
        ];
        let way = |path, problems| Way {
            method: POST,
            path,
            access: Access::WORK,
            reach: Reach::Everybody,
            problems,
            ..read
        };
        let claim = Way {
            patience: self.shared.options.wait_max(),
            ..way("/v1/payments/claims", &[HERE])
        };
        self.add_way(claim, work::claim);
        let complete = way("/v1/payments/leases/{token}/complete", SAID);
        self.add_way(complete, work::complete);
        let hold = way("/v1/payments/leases/{token}/hold", MANY);
        self.add_way(hold, work::hold);
        let witness = way("/v1/payments/leases/{token}/witness", LATE);
        self.add_way(witness, work::witness);
        let renew = way("/v1/payments/leases/{token}/renew", LOST);
        self.add_way(renew, work::renew);
        let begin = way("/v1/payments/leases/{token}/begin", MANY);
        self.add_way(begin, work::begin);
        let release = way("/v1/payments/leases/{token}/release", LOST);
        self.add_way(release, work::release);
        let repair = way("/v1/payments/repair", &[HERE]);
        self.add_way(repair, work::repair);
    }

    fn payment_books(&mut self, read: Way) {
        let status = Way {
            path: "/v1/payments/status",
            ..read
        };
        let reconcile = Way {
            path: "/v1/payments/reconcile",
            access: Access::READ,
            reach: Reach::Everybody,
            problems: &[codes::NOT_FOUND, codes::BAD_QUERY],
            ..read
        };
        self.add_way(status, books::status);
        self.add_way(reconcile, books::reconcile);
    }
}
