//! The rules of every store, and step-by-step equality with the reference store.

use crate::harness::SqliteFactory;

consign_conformance::suite!(SqliteFactory);
