//! The rules of the ledger over PostgreSQL.

use super::harness::PostgresFactory;
use crate::cases::ledger_suite;

ledger_suite!(PostgresFactory);
