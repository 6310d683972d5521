#![doc = include_str!("../README.md")]

mod files;
pub mod uri;

pub use files::{ArtifactError, Artifacts, Draft, hex, sha256_of};
