//! The archive through its public interface.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod damage;
mod erase;
mod fixture;
mod folder;
mod full_disk;
mod leftovers;
mod round_trip;
mod search;
mod writer;
