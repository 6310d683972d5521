//! The schema of a database: components, each with migrations of its own.
//!
//! The engine is one component, every app is another. Migrations go forward only; the database keeps
//! which of them were applied, with a checksum of each.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::error::{Error, Result};

/// The component that every database has.
pub const ENGINE: &str = "engine";

/// One step of a component's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The component it belongs to.
    pub component: &'static str,
    /// 1, 2, 3 … within the component.
    pub version: i64,
    /// Its topic.
    pub name: &'static str,
    /// Its statements.
    pub sql: &'static str,
}

impl Migration {
    /// FNV-1a of the statements: it guards against edited files, not against adversaries.
    pub fn checksum(&self) -> String {
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = self.sql.bytes().fold(0xcbf2_9ce4_8422_2325_u64, hash);
        format!("{hash:016x}")
    }
}

/// The migrations of one component: number, topic and file of each, first to last.
#[macro_export]
macro_rules! migrations {
    ($component:expr; $(($version:literal, $name:literal, $file:literal)),+ $(,)?) => {
        &[$($crate::Migration {
            component: $component,
            version: $version,
            name: $name,
            sql: include_str!($file),
        }),+]
    };
}

/// A migration as the database recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedMigration {
    /// The component it belongs to.
    pub component: String,
    /// Its number.
    pub version: i64,
    /// Its topic.
    pub name: String,
    /// The checksum of its statements.
    pub checksum: String,
    /// The time it was applied, by the clock of the database.
    pub applied_at: Timestamp,
}

/// What a database has beside what this program brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaStatus {
    /// What was applied, in the order of component and version.
    pub applied: Vec<AppliedMigration>,
    /// The migrations this program has, in the order in which it applies them.
    pub known: Vec<Migration>,
}

impl SchemaStatus {
    /// Whether nothing was ever applied.
    pub fn is_empty(&self) -> bool {
        self.applied.is_empty()
    }

    /// The newest version of a component that was applied, 0 for none.
    pub fn version(&self, component: &str) -> i64 {
        let versions = self.applied.iter().filter(|a| a.component == component);
        versions.map(|a| a.version).max().unwrap_or(0)
    }

    /// The version of each component that this program needs.
    pub fn needed(&self) -> BTreeMap<&'static str, i64> {
        let needed = self.known.iter().map(|m| (m.component, m.version));
        needed.collect()
    }

    /// What is still to be applied, in order.
    pub fn pending(&self) -> Vec<Migration> {
        let pending = |m: &&Migration| m.version > self.version(m.component);
        self.known.iter().filter(pending).copied().collect()
    }

    /// Refuses a schema this program does not fit: older, newer, or made by other migrations.
    pub fn check(&self) -> Result<()> {
        self.check_known()?;
        match self.pending().first() {
            None => Ok(()),
            Some(pending) => Err(self.mismatch(pending.component, "run `consign migrate`")),
        }
    }

    /// Refuses a newer schema, and one that was made by other migrations. Components that this program
    /// does not have are left alone.
    pub fn check_known(&self) -> Result<()> {
        let needed = self.needed();
        for applied in &self.applied {
            let Some((component, newest)) = needed.get_key_value(&*applied.component) else {
                continue;
            };
            if applied.version > *newest {
                let remedy = "use a newer consign with this database; nothing was changed";
                return Err(self.mismatch(component, remedy));
            }
            let is_ours = |m: &Migration| {
                (m.component, m.version) == (*component, applied.version)
                    && m.checksum() == applied.checksum
            };
            if !self.known.iter().any(is_ours) {
                return Err(Error::Corrupt {
                    what: format!(
                        "migration {} of {component} ({}) in the database is not the one this \
                         program has; use the consign that applied it",
                        applied.version, applied.name
                    ),
                });
            }
        }
        Ok(())
    }

    fn mismatch(&self, component: &'static str, remedy: &'static str) -> Error {
        Error::Schema {
            component: component.to_owned(),
            found: self.version(component),
            needed: self.needed().get(component).copied().unwrap_or(0),
            remedy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn migration(component: &'static str, version: i64) -> Migration {
        Migration {
            component,
            version,
            name: "tables",
            sql: "CREATE TABLE t (x int)",
        }
    }

    fn applied(migration: Migration) -> AppliedMigration {
        AppliedMigration {
            component: migration.component.to_owned(),
            version: migration.version,
            name: migration.name.to_owned(),
            checksum: migration.checksum(),
            applied_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn status(done: &[Migration], known: &[Migration]) -> SchemaStatus {
        SchemaStatus {
            applied: done.iter().copied().map(applied).collect(),
            known: known.to_vec(),
        }
    }

    #[test]
    fn lists_what_each_component_lacks() {
        let known = [
            migration(ENGINE, 1),
            migration(ENGINE, 2),
            migration("shop", 1),
        ];
        assert_eq!(status(&[], &known).pending(), known);
        let later = status(&known[..2], &known);
        assert_eq!(later.pending(), known[2..]);
        let error = later.check().unwrap_err().to_string();
        assert!(error.contains("shop is at version 0"), "{error}");
        status(&known, &known).check().unwrap();
    }

    #[test]
    fn leaves_components_alone_that_the_program_does_not_have() {
        let done = [migration(ENGINE, 1), migration("shop", 7)];
        status(&done, &done[..1]).check().unwrap();
    }

    #[test]
    fn rejects_newer_and_edited_migrations() {
        let known = [migration(ENGINE, 1)];
        let newer = status(&[known[0], migration(ENGINE, 2)], &known);
        let error = newer.check_known().unwrap_err();
        assert!(matches!(error, Error::Schema { found: 2, .. }), "{error}");
        let edited = Migration {
            sql: "CREATE TABLE t (x text)",
            ..known[0]
        };
        let error = status(&[edited], &known).check_known().unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    }
}
