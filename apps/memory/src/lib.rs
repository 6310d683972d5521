#![doc = include_str!("../README.md")]

mod app;
pub mod audit_json;
mod backend;
mod caller;
pub mod card;
mod cli;
pub mod consume;
pub mod correlation;
mod embedded;
pub mod evidence;
pub mod flush;
pub mod gate;
mod gateway;
mod http;
mod item;
mod logbook;
mod memory;
pub mod metrics;
mod openmemory;
mod options;
mod pages;
pub mod policy;
mod reconcile;
pub mod report;
mod settings;
pub mod space;
pub mod store;
pub mod tools;
mod write_lock;

pub use app::{MemoryApp, MemoryAppService};
pub use backend::{Backend, BackendError, StoredMemory, setting_for};
pub use caller::Caller;
pub use consign_artifacts::uri;
use consign_redact as redact;
pub use correlation::Correlation;
pub use embedded::EmbeddedBackend;
pub use flush::FlushSink;
pub use gateway::{GateRequest, MemoryService, StoreAnswer, StoreRequest};
pub use http::{MemoryHttp, StdioError, serve_stdio};
pub use item::{ItemPage, Listing, MemoryFilter, MemoryItem, Search};
pub use logbook::{
    Action, Attachment, AttachmentFilter, Audit, AuditEnd, AuditFilter, AuditStatus, Candidate,
    DeferResult, EnqueuedMemory, Event, EventFilter, FallbackHit, Finding, Issue, Item, ItemFilter,
    KeepResult, KeptEvidence, KnownMemory, Logbook, MemoryCounts, NewAttachment, NewAudit,
    NewCandidate, NewEvent, NewEvidence, NewItem, NewUser, OpenResult, Opening, OutboxCounts,
    OutboxRow, OutboxStatus, ReconcileOptions, ReconcileOutcome, Settings, SettingsChange, Twin,
};
pub use memory::{NewMemory, is_key, message_key, nth_key, payload_sha, queue};
pub use openmemory::OpenMemory;
pub use options::{
    BackendKind, Dialect, GatewayToken, MemoryOptions, Secret, ToolSet, UnknownActorPolicy,
    queue_policy, queue_work,
};
pub use reconcile::{ReconcileDetail, ReconcileReport, reconcile, reconcile_by, reconcile_loop};
pub use report::ReliabilityReport;
pub use write_lock::{LockRenewal, NEXT_HOLDER_TTL, WriteLockStore, release_write_locks};

/// The queue of memories.
pub const QUEUE: &str = "memory";
