//! What the tables of orders and of payments have in common: each is a protocol with a lane of its
//! own.

use consign_kernel::Error;

use super::{KeyPath, Layer, Problem, origin::Origin};

/// A protocol that has a table in the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocol {
    /// The table, which is also the lane's name.
    pub(super) table: &'static str,
    /// What it is there for, as in "belongs to the orders of POST /do/order".
    pub(super) owner: &'static str,
    /// Settings that are the policy of the lane: these change without a restart.
    pub(super) policy: &'static [&'static str],
}

impl Protocol {
    /// Whether anybody said anything about it.
    pub(super) fn is_said(&self, entries: &Layer) -> bool {
        let table = KeyPath::of(self.table);
        entries
            .iter()
            .any(|(path, entry)| path.starts_with(&table) && entry.origin != Origin::Default)
    }

    /// What cannot be, at the setting it names.
    pub(super) fn refused(&self, entries: &Layer, error: &Error) -> Problem {
        let (path, what) = match error {
            Error::InvalidInput { what, why } => (KeyPath::of(what), why.clone()),
            error => (KeyPath::of(self.table), error.to_string()),
        };
        let origin = entries.get(&path).map(|entry| entry.origin.clone());
        Problem { origin, path, what }
    }

    /// A problem if somebody else wants its lane.
    pub(super) fn lane_is_wanted(&self, entries: &Layer) -> Option<Problem> {
        let Self { table, owner, .. } = self;
        let lane = KeyPath::of("lanes").child(table);
        let (_, entry) = entries.iter().find(|(path, _)| path.starts_with(&lane))?;
        let what = format!(
            "lane {table} belongs to {owner}: [{table}] has its settings. Give this lane another \
             name, or set {table}.enabled = false"
        );
        Some(Problem::at(&entry.origin, &lane, what))
    }

    /// Whether a setting is about the policy of the lane.
    pub(super) fn is_policy(&self, path: &KeyPath) -> bool {
        match path.segments() {
            [table, name] => table == self.table && self.policy.contains(&name.as_str()),
            _ => false,
        }
    }
}
