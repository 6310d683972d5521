//! Payments, from HTTP to the rail and back: real processes, killed for real, on both stores.
//!
//! Names of tests begin with the number of their scenario.

pub(crate) mod fixture;
mod kills;
mod points;
mod race;
mod rail;
mod surface;
mod wake;
