//! The rules of payments over this store.

use super::harness::Bench;

crate::cases::each_case!([crate::cases::tests], (Bench::new()));
