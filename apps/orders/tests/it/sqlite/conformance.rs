//! The rules of the ledger over SQLite.

use super::harness::SqliteFactory;
use crate::cases::ledger_suite;

ledger_suite!(SqliteFactory);
