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
    /// Topic of the step, as in its file name.
    pub name: &'static str,
    /// Its statements.
    pub sql: &'static str,
    /// Components whose tables it uses.
    pub requires: &'static [&'static str],
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
///
/// A component that uses the tables of another one names it: `migrations!["a" requires ["b"]; ...]`.
#[macro_export]
macro_rules! migrations {
    ($component:literal requires $requires:expr;
     $(($version:literal, $name:literal, $file:literal)),+ $(,)?) => {
        &[$($crate::Migration {
            component: $component,
            version: $version,
            name: $name,
            sql: include_str!($file),
            requires: &$requires,
        }),+]
    };
    ($component:expr; $(($version:literal, $name:literal, $file:literal)),+ $(,)?) => {
        &[$($crate::Migration {
            component: $component,
            version: $version,
            name: $name,
            sql: include_str!($file),
            requires: &[],
        }),+]
    };
}

/// The migrations of components in the order in which they are applied: a component after those that it
/// requires, otherwise in the order given.
pub fn migration_order(components: &[&'static [Migration]]) -> Vec<Migration> {
    let mut left: Vec<Migration> = components.iter().copied().flatten().copied().collect();
    let mut order = Vec::with_capacity(left.len());
    while let Some(first) = left.first() {
        let waits = |m: &Migration| {
            let is_left = |name: &&str| left.iter().any(|other| other.component == *name);
            m.requires.iter().any(is_left)
        };
        let next = left.iter().find(|m| !waits(m));
        // Components that require each other are applied in the order given, and fail by themselves.
        let next = next.unwrap_or(first).component;
        order.extend(left.extract_if(.., |m| m.component == next));
    }
    order
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

    /// The migrations to apply, in order.
    pub fn pending(&self) -> Vec<Migration> {
        let pending = |m: &&Migration| m.version > self.version(m.component);
        self.known.iter().filter(pending).copied().collect()
    }

    /// Rejects a schema that does not fit this program: older, newer, or made by other migrations.
    pub fn check(&self) -> Result<()> {
        self.check_known()?;
        match self.pending().first() {
            None => Ok(()),
            Some(pending) => Err(self.mismatch(pending.component, "run `consign migrate`")),
        }
    }

    /// Rejects a newer schema, and one that was made by other migrations. Components that this program
    /// does not have are left alone.
    pub fn check_known(&self) -> Result<()> {
        self.check_required()?;
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

    /// Rejects a component without those that it requires: neither does the database have them, nor
    /// does this program bring them.
    fn check_required(&self) -> Result<()> {
        let has = |name: &str| {
            self.version(name) > 0 || self.known.iter().any(|known| known.component == name)
        };
        let lacks = |m: &Migration| m.requires.iter().copied().find(|name| !has(name));
        let missing = self.known.iter().find_map(|m| Some((m, lacks(m)?)));
        let Some((migration, missing)) = missing else {
            return Ok(());
        };
        Err(Error::Migration {
            component: migration.component,
            version: migration.version,
            name: migration.name,
            why: format!(
                "it uses tables of {missing}, which is not installed; install {missing} too"
            ),
        })
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
            requires: &[],
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
    fn applies_required_components_first() {
        const BOOKS: &[Migration] = &[migration("books", 1), migration("books", 2)];
        const LOANS: &[Migration] = &[Migration {
            requires: &["books"],
            ..migration("loans", 1)
        }];
        const ENGINES: &[Migration] = &[migration(ENGINE, 1)];
        let names = |components: &[&'static [Migration]]| {
            let order = migration_order(components);
            let names: Vec<_> = order.iter().map(|m| (m.component, m.version)).collect();
            names
        };
        let expected = [(ENGINE, 1), ("books", 1), ("books", 2), ("loans", 1)];
        assert_eq!(names(&[ENGINES, LOANS, BOOKS]), expected);
        assert_eq!(names(&[ENGINES, BOOKS, LOANS]), expected);
        let alone = [(ENGINE, 1), ("loans", 1)];
        assert_eq!(names(&[ENGINES, LOANS]), alone, "the check refuses it");
    }

    #[test]
    fn rejects_a_component_without_one_it_requires() {
        let loans = Migration {
            requires: &["books"],
            ..migration("loans", 1)
        };
        let known = [migration(ENGINE, 1), loans];
        let error = status(&[], &known).check_known().unwrap_err().to_string();
        assert!(error.contains("migration 1 of loans"), "{error}");
        assert!(error.contains("install books too"), "{error}");
        // The database may have it from another program.
        let done = [migration(ENGINE, 1), migration("books", 1)];
        status(&done, &known).check_known().unwrap();
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
