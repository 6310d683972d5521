//! The worker over real stores and sinks that misbehave on demand.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod bytes;
mod delivering;
mod ending;
mod expiry;
mod health;
mod leases;
mod outage;
mod policy;
mod support;
mod telemetry;
mod uncertain;
