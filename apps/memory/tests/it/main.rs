//! The gateway and its backends, over a real store and a real memory server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod consume;
mod documented;
mod flush;
mod gateway;
mod openmemory;
mod support;
