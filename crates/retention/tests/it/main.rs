//! The maintenance over the reference store: what it archives, and what faults leave behind.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod erasures;
mod faults;
mod pass;
mod size;
mod support;
