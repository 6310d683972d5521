#![doc = include_str!("../README.md")]

mod archive;
#[cfg(test)]
mod crash_tests;
mod disk;
mod draft;
mod erase;
mod error;
mod hash;
mod lines;
mod manifest;
mod merge;
mod name;
mod record;
mod search;
mod sweep;
mod tally;
mod verify;
mod writer;

pub use consign_kernel::Erasure;

pub use archive::{Archive, WriteLock};
pub use erase::ErasedBy;
pub use error::{Error, Result};
pub use lines::Records;
pub use manifest::{FORMAT, Manifest, ManifestFacts};
pub use name::IdRange;
pub use record::{ArchivedAttempt, ArchivedLate, Death, Record, payload_digest};
pub use search::Filter;
pub use tally::Counts;
pub use verify::Verification;
pub use writer::Writer;
