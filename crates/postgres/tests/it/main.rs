//! The PostgreSQL store: held to the conformance suite, and tested where PostgreSQL is special.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod advice;
mod alerts;
mod append_only;
mod attack;
mod conformance;
mod copies;
mod crash;
mod doctor;
mod erase;
mod footprint;
mod growth;
mod harness;
mod hooks;
mod hostile;
mod migrate;
mod payload;
mod plans;
mod pooler;
mod pools;
mod pruning;
mod ranges;
mod roles;
mod snapshots;
mod sql;
mod stranded;
mod wake;
mod wake_races;
