//! The rules of payments over this store.

use super::fixture;

crate::cases::each_case!([crate::cases::tests], (fixture()));
