//! Settings, and where each was said.
//!
//! Layers, later ones winning: the embedded defaults, `consign.toml`, the environment, the command
//! line. Without a file there is one queue to try things with.

mod environment;
mod file;
#[cfg(test)]
mod foreign;
mod key;
mod kind;
mod memory;
mod orders;
mod origin;
mod path;
mod payments;
mod problem;
mod protocol;
mod queues;
mod scm;
mod secrets;
mod settings;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

pub(crate) use self::{
    origin::Origin,
    path::KeyPath,
    problem::Problem,
    queues::QueueConfig,
    scm::Scm,
    secrets::shown,
    settings::{LogFormat, Settings},
};
use crate::failure::Failure;

/// What every setting is unless somebody says otherwise, and what it means.
pub(crate) const DEFAULTS: &str = include_str!("../config/default.toml");

/// A queue to try things with, while there is no file.
const EXAMPLE: &str = include_str!("../config/example.toml");

/// The file that is looked for in the working directory.
pub(crate) const FILE_NAME: &str = "consign.toml";

/// One value and where it was said.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// What one source says. A table that is there is an entry of its own, an empty object.
pub(crate) type Layer = BTreeMap<KeyPath, Entry>;

/// What the command line says: path, value, flag.
pub(crate) type Flags = Vec<(&'static str, Value, &'static str)>;

/// Where settings may come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// The file that was named; it must be there.
    pub(crate) file: Option<PathBuf>,
    /// The environment.
    pub(crate) variables: Vec<(String, String)>,
    /// The command line.
    pub(crate) flags: Flags,
}

impl Sources {
    /// This process's environment, and the file that `--config` or `CONSIGN_CONFIG` names.
    pub(crate) fn of_process(file: Option<PathBuf>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            file,
            variables: std::env::vars_os().filter_map(text).collect(),
            flags: Vec::new(),
        }
    }
}

/// Every setting with its origin.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// What was said, the winners only.
    entries: Layer,
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// What was said and is not used, for whoever wonders.
    pub(crate) note: Option<String>,
    /// The same in types.
    pub(crate) settings: Settings,
}

impl Config {
    /// Reads every source, and refuses with everything that is wrong.
    pub(crate) fn load(sources: &Sources) -> Result<Self, Failure> {
        let file = chosen_file(sources.file.as_deref());
        let text = file.as_deref().map(read_text).transpose()?;
        let shown_as = file.as_deref().map(|path| path.display().to_string());
        let named = text.as_deref().zip(shown_as.as_deref());
        Self::assemble(named, sources, file.clone()).map_err(|problems| problem::failure(&problems))
    }

    fn assemble(
        file: Option<(&str, &str)>,
        sources: &Sources,
        path: Option<PathBuf>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut entries = file::read(DEFAULTS, &|_| Origin::Default, &mut problems);
        assert!(
            problems.is_empty(),
            "invariant: the defaults fit: {problems:?}"
        );
        entries.extend(match file {
            Some((text, name)) => {
                let origin = |line| Origin::File {
                    file: name.to_owned(),
                    line,
                };
                file::read(text, &origin, &mut problems)
            }
            None if cfg!(feature = "log") => {
                file::read(EXAMPLE, &|_| Origin::Example, &mut problems)
            }
            None => Layer::new(),
        });
        let mut said = environment::read(&sources.variables, &mut problems);
        environment::take_port(&sources.variables, &mut said, &entries, &mut problems);
        let note = orders::leave_stray(&mut said, &entries);
        entries.extend(said);
        for (path, value, name) in &sources.flags {
            let (value, origin) = (value.clone(), Origin::Flag { name });
            entries.insert(KeyPath::of(path), Entry { value, origin });
        }
        if !problems.is_empty() {
            problems.sort_by_key(Problem::line);
            return Err(problems);
        }
        let settings = Settings::read(&entries)?;
        Ok(Self {
            entries,
            file: path,
            note,
            settings,
        })
    }

    /// Every value with its origin, by name; tables left out.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&KeyPath, &Entry)> {
        let leaf = |(_, entry): &(&KeyPath, &Entry)| !entry.value.is_object();
        self.entries.iter().filter(leaf)
    }

    /// Where a setting was said.
    pub(crate) fn origin(&self, path: &str) -> Option<&Origin> {
        let segments: Vec<&str> = path.split('.').collect();
        self.origin_of(&segments)
    }

    /// The same by its segments, some of which the user named.
    pub(crate) fn origin_of(&self, segments: &[&str]) -> Option<&Origin> {
        let segments: Vec<String> = segments.iter().map(|&segment| segment.into()).collect();
        let entry = self.entries.get(&KeyPath::from(segments))?;
        Some(&entry.origin)
    }

    /// The settings, policies apart, in which `other` differs.
    pub(crate) fn differs_beyond_policies(&self, other: &Self) -> Vec<String> {
        let said = |config: &Self, path: &KeyPath| {
            let entry = config.entries.get(path);
            entry.map(|entry| entry.value.clone())
        };
        let paths: BTreeSet<&KeyPath> = self.entries.keys().chain(other.entries.keys()).collect();
        let differs = |path: &&&KeyPath| !is_policy(path) && said(self, path) != said(other, path);
        paths
            .iter()
            .filter(differs)
            .map(|path| path.to_string())
            .collect()
    }

    /// Says nothing about the policies of queues that are there.
    pub(crate) fn keep_policies(&mut self) {
        let settings = &mut self.settings;
        settings.orders.policy_said.clear();
        settings.payments.policy_said.clear();
        settings.memory.policy_said.clear();
    }

    /// Takes over what `other` says about policies, and nothing else.
    pub(crate) fn take_policies(&mut self, other: Self) {
        self.entries.retain(|path, _| !is_policy(path));
        let policies = other.entries.into_iter();
        self.entries
            .extend(policies.filter(|(path, _)| is_policy(path)));
        self.settings.queues = other.settings.queues;
        self.settings.orders.take_policy(other.settings.orders);
        self.settings.payments.take_policy(other.settings.payments);
        self.settings.memory.take_policy(other.settings.memory);
    }
}

/// Whether a setting changes without a restart.
fn is_policy(path: &KeyPath) -> bool {
    queues::is_policy(path)
        || orders::is_policy(path)
        || payments::is_policy(path)
        || memory::is_policy(path)
}

/// The file that was named, else the one in the working directory if it is there.
fn chosen_file(named: Option<&Path>) -> Option<PathBuf> {
    match named {
        Some(path) => Some(path.to_owned()),
        None => Some(PathBuf::from(FILE_NAME)).filter(|path| path.exists()),
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let message = format!(
            "{}: the configuration cannot be read: {error}",
            path.display()
        );
        Failure::new(crate::failure::Exit::Usage, "config", message)
    })
}

/// The entries under `root` as one JSON value.
fn tree(entries: &Layer, root: &KeyPath) -> Value {
    let mut tree = Value::Object(Map::new());
    let depth = root.segments().len();
    for (path, entry) in entries.iter().filter(|(path, _)| path.starts_with(root)) {
        let mut place = &mut tree;
        for segment in &path.segments()[depth..] {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            let Some(table) = place.as_object_mut() else {
                unreachable!("invariant: made an object above");
            };
            place = table.entry(segment.clone()).or_insert(Value::Null);
        }
        let empty = entry.value.as_object().is_some_and(Map::is_empty);
        if !(empty && place.is_object()) {
            *place = entry.value.clone();
        }
    }
    tree
}
