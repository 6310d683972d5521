#![doc = include_str!("../README.md")]

mod backend;
pub mod backoff;
pub mod correlation;
pub mod gate;
mod logbook;
mod memory;
pub mod policy;
pub mod space;

pub use backend::{Backend, BackendError, Hit, Search, StoredMemory};
pub use correlation::Correlation;
pub use logbook::{
    Action, Attachment, AttachmentFilter, Audit, AuditEnd, AuditFilter, AuditStatus, Candidate,
    Deferred, EmbeddedHit, EnqueuedMemory, Event, EventFilter, FallbackHit, Finding, Found, Issue,
    Item, ItemFilter, Kept, Logbook, MemoryCounts, NewAttachment, NewAudit, NewCandidate, NewEvent,
    NewItem, NewUser, OutboxRow, OutboxStatus, ReconcileOptions, Reconciled, Settings,
    SettingsChange, Twin,
};
pub use memory::{NewMemory, lane, message_key, payload_sha};

/// The lane memories travel on.
pub const LANE: &str = "memory";
