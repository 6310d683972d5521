//! The verifier against the vectors that all clients share.

#![expect(clippy::unwrap_used, reason = "a broken test bench is a failed test")]

mod vectors;
