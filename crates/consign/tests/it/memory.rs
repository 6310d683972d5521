//! Memories, from the gateway to the memory server and back: real processes, killed for real, on
//! both stores.
//!
//! Names of tests begin with the number of their scenario.

mod asking;
mod backends;
mod cli;
mod clients;
mod degradation;
mod gateway;
mod keeper;
mod kills;
mod meddler;
mod several;
mod switch;
mod verify;
mod verify_fails;
