//! One binary for all tests of synchronisation.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod architecture;
mod driver;
mod git;
mod gitlab;
mod stage;
mod svn;
