//! The part of the server that apps use: what [`Extension`] needs, and nothing else. The
//! rest of the server is private.

pub use crate::{
    dashboard::{
        audit::{
            AuditLog, AuditLogEntry, AuditLogFilter, AuditLogInfo, AuditLogReader, AuditQuery,
            Step, start,
        },
        beside::{Fact, RelatedRecord},
        form::{Form, encoded},
        shell::{Shell, page, text},
        words::{Moment, count, many},
    },
    extension::{Extension, QueueProfile, TokenHolder},
    extract::{InPath, Json, MaybeJson, Params, Segment, check_type, parse, whole},
    gate::{
        GateState,
        access::{Access, Caller, Reach, ServerToken},
        budget::Reservation,
        deadline::{Client, Slot},
        values::check as check_values,
    },
    prefer::wait as preferred_wait,
    problem::{ErrorFormat, Flat, Problem, ProblemFacts, codes, flat_code, internal},
    routes::{
        Errors, GET, OPTIONS, POST, Route, Routes, Verb,
        claims::{answer_within, wait_for},
        enqueue::{IDEMPOTENCY_KEY, continue_trace, unquoted},
        flat_answer, json_answer, next_link,
    },
    state::AppState,
    tally::TallyEntry,
    wire::{
        leases::{BegunBody, ReleaseBody},
        messages::{LateView, page_size},
        operate::{ReasonBody, by},
        shapes::StateWord,
    },
};
