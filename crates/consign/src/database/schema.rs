//! Schemas, whichever database they are in.

use serde::Serialize;

/// How far a database has come.
#[derive(Debug)]
pub(crate) struct Schema {
    /// The newest version applied, 0 for none.
    pub(crate) version: i64,
    /// The version this program needs.
    pub(crate) needed: i64,
}

/// One step of the schema.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}
