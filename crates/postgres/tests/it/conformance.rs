//! The suite that specifies every store, over this one.

use crate::harness::PostgresFactory;

consign_conformance::suite!(PostgresFactory { low_water: true });
