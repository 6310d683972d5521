//! The routes of the gateway of memories.

use std::time::Duration;

use super::{Contract, GET, OPTIONS, POST, Routes, Way, mcp, memory};
use crate::{
    gate::access::{Access, Reach},
    problem::codes::{self, Meaning},
};

impl Routes {
    pub(super) fn remembering(&mut self) {
        const NOT_HERE: &[&Meaning] = &[codes::NOT_FOUND, codes::ORIGIN_NOT_ALLOWED];
        /// Of the tools.
        const READ: &[(u16, &str)] = &[
            (400, "MISSING_REQUIRED_PARAMETER"),
            (400, "INVALID_PARAMETER"),
            (403, "SPACE_FORBIDDEN"),
            (403, "ACTOR_MISMATCH"),
            (404, "NOT_FOUND"),
            (413, "PAYLOAD_TOO_LARGE"),
            (500, "EXECUTION_FAILED"),
            (502, "OPENMEMORY_REFUSED"),
            (503, "OPENMEMORY_UNAVAILABLE"),
            (503, "LOGBOOK_UNAVAILABLE"),
            (503, "QUERY_FAILED"),
            (503, "RELIABILITY_REPORT_DEPENDENCY_UNAVAILABLE"),
            (500, "RELIABILITY_REPORT_EXECUTION_FAILED"),
        ];
        const WRITE: &[(u16, &str)] = &[
            (400, "MISSING_REQUIRED_PARAMETER"),
            (400, "INVALID_PARAMETER"),
            (403, "ACTOR_MISMATCH"),
            (413, "PAYLOAD_TOO_LARGE"),
            (500, "EXECUTION_FAILED"),
            (500, "AUDIT_WRITE_FAILED"),
            (503, "AUDIT_WRITE_FAILED"),
            (500, "OUTBOX_ENQUEUE_FAILED"),
            (503, "OUTBOX_ENQUEUE_FAILED"),
            (400, "OUTBOX_VALIDATION_FAILED"),
            (404, "NOT_FOUND"),
            (502, "OPENMEMORY_REFUSED"),
            (503, "OPENMEMORY_UNAVAILABLE"),
            (503, "INTERNAL_ERROR"),
            (503, "LOGBOOK_UNAVAILABLE"),
        ];
        let call = Way {
            method: POST,
            path: "/mcp",
            access: Access::RECALL,
            // Spaces are no tenants: whoever is bound to one has no business here.
            reach: Reach::Everybody,
            problems: NOT_HERE,
            contract: Contract::Agents(&[(400, "PARSE_ERROR"), (400, "INVALID_REQUEST")]),
            patience: Duration::ZERO,
        };
        let ask = Way {
            method: OPTIONS,
            access: Access::Open,
            contract: Contract::Agents(&[]),
            ..call
        };
        let read = |method, path| Way {
            method,
            path,
            contract: Contract::Agents(READ),
            ..call
        };
        let write = |path| Way {
            path,
            access: Access::REMEMBER,
            contract: Contract::Agents(WRITE),
            ..call
        };
        self.add_way(call, mcp::call);
        self.add_way(ask, mcp::preflight);
        self.add_way(write("/memory/store"), memory::store);
        self.add_way(write("/memory/update"), memory::update);
        self.add_way(write("/memory/delete"), memory::delete);
        self.add_way(read(POST, "/memory/query"), memory::query);
        self.add_way(read(POST, "/memory/get"), memory::get);
        self.add_way(read(POST, "/memory/list"), memory::list);
        self.add_way(read(POST, "/memory/spaces"), memory::spaces);
        self.add_way(read(GET, "/reliability/report"), memory::report);
        self.add_way(read(POST, "/reliability/gate"), memory::gate);
        self.add_way(read(GET, "/governance/settings"), memory::settings);
        let change = write("/governance/settings/update");
        self.add_way(change, memory::change_settings);
    }
}
