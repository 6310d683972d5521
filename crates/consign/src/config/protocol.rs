//! What the tables of orders, payments and memories have in common: each is a protocol with a queue of
//! its own.

use consign_kernel::Error;

use super::{Entry, KeyPath, Layer, Problem, key::KEYS, origin::Origin};

/// A protocol that has a table in the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocol {
    /// The table, which is also the queue's name.
    pub(super) table: &'static str,
    /// What it is there for, as in "belongs to the orders of POST /do/order".
    pub(super) owner: &'static str,
    /// Settings that are the policy of the queue, each with the fields it says: these change without a
    /// restart.
    pub(super) policy: &'static [(&'static str, Fields)],
    /// Settings that bear on the policy beside their own meaning.
    pub(super) beside: &'static [(&'static str, Fields)],
}

/// Fields of a queue's policy; `retry.max_ms` is one within another.
pub(crate) type Fields = &'static [&'static str];

impl Protocol {
    /// Whether anybody said anything about it.
    pub(super) fn is_said(&self, entries: &Layer) -> bool {
        let table = KeyPath::of(self.table);
        entries
            .iter()
            .any(|(path, entry)| path.starts_with(&table) && entry.origin != Origin::Default)
    }

    /// The fields of the queue's policy that somebody said something about.
    pub(super) fn policy_said(&self, entries: &Layer) -> Vec<&'static str> {
        let table = KeyPath::of(self.table);
        let is_said = |name: &str| {
            let entry = entries.get(&table.child(name));
            entry.is_some_and(|entry| entry.origin != Origin::Default)
        };
        let settings = self.policy.iter().chain(self.beside);
        let said = settings.filter(|(name, _)| is_said(name));
        said.flat_map(|(_, fields)| fields.iter().copied())
            .collect()
    }

    /// Reads the variables that have a name of their own. `names` gives those of a setting, the
    /// strongest first; an empty variable counts as absent.
    pub(super) fn read_environment(
        &self,
        variables: &[(String, String)],
        names: impl Fn(&str) -> Vec<String>,
        layer: &mut Layer,
        problems: &mut Vec<Problem>,
    ) {
        for key in KEYS {
            let path = KeyPath::of(key.path);
            // Settings of a table within the table have no names of their own.
            let [table, name] = path.segments() else {
                continue;
            };
            if table != self.table {
                continue;
            }
            let said = |wanted: &String| {
                let mut said = variables.iter();
                said.find(|(name, text)| name == wanted && !text.is_empty())
            };
            let Some((name_said, text)) = names(name).iter().find_map(said) else {
                continue;
            };
            let origin = Origin::Environment {
                name: name_said.clone(),
            };
            let value = key.kind.parse(text);
            if let Err(what) = key.kind.check(&value) {
                problems.push(Problem::at(&origin, &path, what));
            }
            layer.insert(path, Entry { value, origin });
        }
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

    /// A problem if somebody else wants its queue.
    pub(super) fn queue_is_wanted(&self, entries: &Layer) -> Option<Problem> {
        let Self { table, owner, .. } = self;
        let queue = KeyPath::of("queues").child(table);
        let (_, entry) = entries.iter().find(|(path, _)| path.starts_with(&queue))?;
        let what = format!(
            "queue {table} belongs to {owner}: [{table}] has its settings. Give this queue another \
             name, or set {table}.enabled = false"
        );
        Some(Problem::at(&entry.origin, &queue, what))
    }

    /// Whether a setting is about the policy of the queue.
    pub(super) fn is_policy(&self, path: &KeyPath) -> bool {
        match path.segments() {
            [table, name] => {
                let mut settings = self.policy.iter();
                table == self.table && settings.any(|(setting, _)| setting == name)
            }
            _ => false,
        }
    }
}
