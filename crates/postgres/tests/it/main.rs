//! The PostgreSQL store: held to the conformance suite, and tested where PostgreSQL is special.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod advice;
mod attack;
mod conformance;
mod crash;
mod doctor;
mod harness;
mod hostile;
mod memory;
mod migrate;
mod payload;
mod plans;
mod pooler;
mod pools;
mod roles;
mod sql;
mod stranded;
mod wake;
mod wake_races;
