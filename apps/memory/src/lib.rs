#![doc = include_str!("../README.md")]

pub mod audit_json;
mod backend;
pub mod backoff;
mod caller;
pub mod card;
pub mod consume;
pub mod correlation;
mod embedded;
pub mod evidence;
pub mod flush;
pub mod gate;
mod gateway;
mod item;
mod logbook;
mod memory;
pub mod metrics;
mod openmemory;
mod options;
pub mod policy;
mod reconcile;
pub mod redact;
pub mod report;
pub mod space;
pub mod tools;
mod turn;

pub use backend::{Backend, BackendError, StoredMemory, setting_for};
pub use caller::Caller;
pub use consign_artifacts::uri;
pub use correlation::Correlation;
pub use embedded::Embedded;
pub use flush::FlushSink;
pub use gateway::{GateRequest, MemoryService, StoreAnswer, StoreRequest};
pub use item::{ItemPage, Listing, MemoryFilter, MemoryItem, Search};
pub use logbook::{
    Action, Attachment, AttachmentFilter, Audit, AuditEnd, AuditFilter, AuditStatus, Candidate,
    Deferred, EnqueuedMemory, Event, EventFilter, FallbackHit, Finding, Found, Issue, Item,
    ItemFilter, Kept, KeptEvidence, Logbook, MemoryCounts, NewAttachment, NewAudit, NewCandidate,
    NewEvent, NewEvidence, NewItem, NewUser, Opened, Opening, OutboxCounts, OutboxRow,
    OutboxStatus, ReconcileOptions, Reconciled, Settings, SettingsChange, TURN_PLACE, TurnKept,
    Twin,
};
pub use memory::{NewMemory, is_key, message_key, nth_key, payload_sha, queue};
pub use openmemory::OpenMemory;
pub use options::{
    BackendKind, Dialect, GatewayToken, MemoryOptions, Secret, ToolSet, UnknownActorPolicy,
    queue_policy, queue_work,
};
pub use reconcile::{ReconcileDetail, ReconcileReport, reconcile, reconcile_loop};
pub use report::ReliabilityReport;
pub use turn::leave_turns;

/// The queue memories travel on.
pub const QUEUE: &str = "memory";
