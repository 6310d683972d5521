//! The rules of payments over this store.

use super::Bench;

crate::cases::each_case!([crate::cases::tests], (Bench::new()));
