//! Settings, and where each comes from.
//!
//! Layers, later ones winning: the declared defaults, `consign.toml`, the environment, the command
//! line. Without a file there is one queue, `default`.

mod environment;
mod file;
mod kind;
mod options;
mod origin;
mod path;
mod print;
mod problem;
mod secrets;
mod setting;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use consign_kernel::{Error, nearest};
use serde_json::{Map, Value};

pub use self::{
    kind::Kind,
    origin::Origin,
    path::KeyPath,
    print::{default_file, table},
    problem::{Problem, failure},
    secrets::shown,
    setting::{Catalogue, DAY_MS, HOUR_MS, KeyMatch, SECONDS, Section, Setting},
};
use crate::{App, Registry, database::Address, failure::Failure};

/// The file that is looked for in the working directory.
pub const FILE_NAME: &str = "consign.toml";

/// The setting that names the apps that are on.
const APPS: &str = "apps";

/// One value and where it comes from.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub origin: Origin,
}

/// What one source holds. A table that is there is an entry of its own, an empty object.
pub type Layer = BTreeMap<KeyPath, Entry>;

/// What the command line sets: path, value, flag.
pub type Flags = Vec<(&'static str, Value, &'static str)>;

/// Where settings may come from.
#[derive(Clone)]
pub struct Sources {
    /// Every setting there is, and the apps.
    pub registry: &'static Registry,
    /// The settings used where there is no file, as TOML.
    pub example: &'static str,
    /// The file that was named; it must be there.
    pub file: Option<PathBuf>,
    /// The environment.
    pub variables: Vec<(String, String)>,
    /// The command line.
    pub flags: Flags,
}

impl Sources {
    /// This process's environment, and the file that `--config` or `CONSIGN_CONFIG` names.
    pub fn of_process(
        registry: &'static Registry,
        example: &'static str,
        file: Option<PathBuf>,
    ) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            registry,
            example,
            file,
            variables: std::env::vars_os().filter_map(text).collect(),
            flags: Vec::new(),
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables hold secrets.
        f.debug_struct("Sources")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Every setting with its origin.
#[derive(Clone)]
pub struct Config {
    registry: &'static Registry,
    /// The values that won.
    entries: Layer,
    /// The file that was read, if there is one.
    pub file: Option<PathBuf>,
    /// What was set and is not used.
    pub notes: Vec<String>,
    /// The names of the apps that are on.
    on: Vec<&'static str>,
    /// Whether queues that exist keep their policies.
    keeps_policies: bool,
}

impl Config {
    /// Reads every source; the error lists everything that is wrong.
    pub fn load(sources: &Sources) -> Result<Self, Failure> {
        let file = chosen_file(sources.file.as_deref());
        let text = file.as_deref().map(read_text).transpose()?;
        let shown_as = file.as_deref().map(|path| path.display().to_string());
        let named = text.as_deref().zip(shown_as.as_deref());
        Self::assemble(named, sources, file.clone()).map_err(|problems| failure(&problems))
    }

    /// The same from the text of a file with its name.
    pub fn assemble(
        file: Option<(&str, &str)>,
        sources: &Sources,
        path: Option<PathBuf>,
    ) -> Result<Self, Vec<Problem>> {
        let registry = sources.registry;
        let catalogue = Catalogue(registry);
        let mut problems = Vec::new();
        let mut entries = defaults(catalogue);
        entries.extend(match file {
            Some((text, name)) => {
                let origin = |line| Origin::File {
                    file: name.to_owned(),
                    line,
                };
                file::read(text, catalogue, &origin, &mut problems)
            }
            None => file::read(
                sources.example,
                catalogue,
                &|_| Origin::Example,
                &mut problems,
            ),
        });
        let variables = environment::read(catalogue, &sources.variables, &mut problems);
        environment::reject_unknown(catalogue, &sources.variables, &entries, &mut problems);
        let mut flags = Layer::new();
        for (path, value, name) in &sources.flags {
            let (value, origin) = (value.clone(), Origin::Flag { name });
            flags.insert(KeyPath::of(path), Entry { value, origin });
        }
        // What is on decides which variables of the apps are read, so it cannot depend on them.
        let on = apps_on(registry, &[&entries, &variables, &flags], &mut problems);
        let mut notes = Vec::new();
        for app in on.iter().filter_map(|name| registry.app(name)) {
            let mut own =
                environment::read_app(app, catalogue, &sources.variables, &entries, &mut problems);
            notes.extend(app.ignore(&mut own, &entries));
            entries.extend(own);
        }
        entries.extend(variables);
        entries.extend(flags);
        let config = Self {
            registry,
            entries,
            file: path,
            notes,
            on,
            keeps_policies: false,
        };
        if problems.is_empty() {
            problems = config.problems();
        }
        if !problems.is_empty() {
            problems.sort_by_key(Problem::line);
            return Err(problems);
        }
        Ok(config)
    }

    /// What is wrong beyond the kind and bounds of each setting.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = (self.registry.check)(self);
        for app in self.apps() {
            let wrong = app.check(self);
            let is_right = wrong.is_empty();
            problems.extend(wrong);
            if is_right && app.queue(self).is_some() {
                problems.extend(self.queue_is_taken(app.name()));
            }
        }
        problems
    }

    /// A problem if the file configures the queue of an app as one of its own.
    fn queue_is_taken(&self, name: &str) -> Option<Problem> {
        let queue = KeyPath::of("queues").child(name);
        let mut entries = self.entries.iter();
        let (_, entry) = entries.find(|(path, _)| path.starts_with(&queue))?;
        let what = format!(
            "queue {name} belongs to the app {name}: [{name}] has its settings. Give this queue \
             another name, or set {name}.enabled = false"
        );
        Some(Problem::at(&entry.origin, &queue, what))
    }

    /// The apps that are on, in the order of the registry.
    pub fn apps(&self) -> impl Iterator<Item = &'static dyn App> {
        let apps = self.registry.apps.iter().copied();
        apps.filter(|app| self.on.contains(&app.name()))
    }

    /// Every app, whether it is on or not.
    pub fn registry(&self) -> &'static Registry {
        self.registry
    }

    /// Whether an app is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.on.contains(&name)
    }

    /// Switches every other app off.
    pub fn retain_apps(&mut self, keep: impl Fn(&str) -> bool) {
        self.on.retain(|name| keep(name));
    }

    /// Every value with its origin, by name; tables left out.
    pub fn values(&self) -> impl Iterator<Item = (&KeyPath, &Entry)> {
        let leaf = |(_, entry): &(&KeyPath, &Entry)| !entry.value.is_object();
        self.entries.iter().filter(leaf)
    }

    /// Every entry, tables included.
    pub fn entries(&self) -> &Layer {
        &self.entries
    }

    /// The value of a setting.
    pub fn value(&self, path: &str) -> Option<&Value> {
        self.entries
            .get(&KeyPath::of(path))
            .map(|entry| &entry.value)
    }

    /// A table as one JSON value; the empty name is all of them.
    pub fn tree(&self, table: &str) -> Value {
        if table.is_empty() {
            tree(&self.entries, &KeyPath::root())
        } else {
            tree(&self.entries, &KeyPath::of(table))
        }
    }

    /// Where a setting comes from.
    pub fn origin(&self, path: &str) -> Option<&Origin> {
        let segments: Vec<&str> = path.split('.').collect();
        self.origin_of(&segments)
    }

    /// The same by its segments, some of which the user named.
    pub fn origin_of(&self, segments: &[&str]) -> Option<&Origin> {
        let segments: Vec<String> = segments.iter().map(|&segment| segment.into()).collect();
        let entry = self.entries.get(&KeyPath::from(segments))?;
        Some(&entry.origin)
    }

    /// The database that the settings name.
    pub fn address(&self) -> Result<Address, Failure> {
        let origin = self.origin("database.url").map(ToString::to_string);
        let named = self.value("database.url").and_then(Value::as_str);
        Address::resolve(named.zip(origin.as_deref()))
    }

    /// Whether a table has a value that is not a default.
    pub fn is_set(&self, table: &str) -> bool {
        is_set(&self.entries, table)
    }

    /// The fields of the policy of an app's queue that a setting other than a default is about.
    pub fn policy_fields(&self, section: &Section) -> Vec<&'static str> {
        if self.keeps_policies {
            return Vec::new();
        }
        let is_set = |setting: &&Setting| {
            let entry = self.entries.get(&KeyPath::of(setting.key));
            entry.is_some_and(|entry| entry.origin != Origin::Default)
        };
        let set = section.settings.iter().filter(is_set);
        set.flat_map(|setting| setting.policy.iter().chain(setting.bears_on))
            .copied()
            .collect()
    }

    /// A problem with a setting, at the place where it was set.
    pub fn problem(&self, path: KeyPath, what: impl Into<String>) -> Problem {
        let origin = self.entries.get(&path).map(|entry| entry.origin.clone());
        Problem {
            origin,
            path,
            what: what.into(),
        }
    }

    /// A problem out of an error that names a setting.
    pub fn rejected(&self, table: &str, error: &Error) -> Problem {
        match error {
            Error::InvalidInput { what, why } => self.problem(KeyPath::of(what), why.clone()),
            error => self.problem(KeyPath::of(table), error.to_string()),
        }
    }

    /// The settings, policies apart, in which `other` differs.
    pub fn differs_beyond_policies(&self, other: &Self) -> Vec<String> {
        let value = |config: &Self, path: &KeyPath| {
            let entry = config.entries.get(path);
            entry.map(|entry| entry.value.clone())
        };
        let paths: BTreeSet<&KeyPath> = self.entries.keys().chain(other.entries.keys()).collect();
        let differs =
            |path: &&&KeyPath| !self.is_policy(path) && value(self, path) != value(other, path);
        paths
            .iter()
            .filter(differs)
            .map(|path| path.to_string())
            .collect()
    }

    /// Keeps the policies of existing queues.
    pub fn keep_policies(&mut self) {
        self.keeps_policies = true;
    }

    /// Takes over the policies of `other`, and nothing else.
    pub fn take_policies(&mut self, other: Self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.retain(|path, _| !self.is_policy(path));
        let policies = other.entries.into_iter();
        entries.extend(policies.filter(|(path, _)| self.is_policy(path)));
        self.entries = entries;
    }

    /// Whether a setting changes without a restart: a queue, its policy, or a setting of an app that is
    /// part of one.
    fn is_policy(&self, path: &KeyPath) -> bool {
        match path.segments() {
            [queues, _, field, ..] if queues == "queues" => field != "sink",
            [queues, _] if queues == "queues" => true,
            _ => match Catalogue(self.registry).find(path) {
                KeyMatch::Key(setting) => !setting.policy.is_empty(),
                _ => false,
            },
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values hold secrets.
        f.debug_struct("Config")
            .field("file", &self.file)
            .field("on", &self.on)
            .finish_non_exhaustive()
    }
}

/// The declared defaults.
fn defaults(catalogue: Catalogue) -> Layer {
    let mut layer = Layer::new();
    for setting in catalogue.settings() {
        let path = KeyPath::of(setting.key);
        // A table with settings is there even where none of them has a default.
        if let Some((table, _)) = setting
            .key
            .split_once('.')
            .filter(|_| !setting.key.contains('*'))
        {
            layer.entry(KeyPath::of(table)).or_insert(Entry {
                value: Value::Object(Map::new()),
                origin: Origin::Default,
            });
        }
        if let Some(toml) = setting.default {
            let value = file::value(toml);
            let value = value.unwrap_or_else(|| panic!("invariant: {path} has a default: {toml}"));
            let fits = setting.kind.check(&value);
            assert!(
                fits.is_ok(),
                "invariant: the default of {path} fits: {fits:?}"
            );
            let origin = Origin::Default;
            layer.insert(path, Entry { value, origin });
        }
    }
    layer
}

/// The apps that are on, and a problem for each name that is no app.
///
/// A database that consign makes by itself has every app, to try. In any other, an app is on if `apps`
/// names it or its table sets something.
fn apps_on(
    registry: &'static Registry,
    layers: &[&Layer],
    problems: &mut Vec<Problem>,
) -> Vec<&'static str> {
    let strongest = |path: &str| {
        let path = KeyPath::of(path);
        layers.iter().rev().find_map(|layer| layer.get(&path))
    };
    let named = strongest(APPS).filter(|entry| entry.origin != Origin::Default);
    let names: Vec<&str> = named
        .and_then(|entry| entry.value.as_array())
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for name in &names {
        if let (None, Some(entry)) = (registry.app(name), named) {
            let known: Vec<&str> = registry.apps.iter().map(|app| app.name()).collect();
            let meant = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("there are {}", known.join(", ")),
            };
            let what = format!("app {name:?} does not exist; {meant}");
            problems.push(Problem::at(&entry.origin, &KeyPath::of(APPS), what));
        }
    }
    let url = strongest("database.url").and_then(|entry| entry.value.as_str());
    let is_to_try = url.is_none_or(str::is_empty);
    let is_on = |app: &&&'static dyn App| {
        let enabled = strongest(&format!("{}.enabled", app.name()));
        let is_enabled = enabled.is_none_or(|entry| entry.value != Value::Bool(false));
        let is_named = names.contains(&app.name()) || (named.is_none() && is_to_try);
        is_enabled && (is_named || layers.iter().any(|layer| is_set(layer, app.name())))
    };
    registry
        .apps
        .iter()
        .filter(is_on)
        .map(|app| app.name())
        .collect()
}

/// Whether a table has a value that is not a default.
fn is_set(entries: &Layer, table: &str) -> bool {
    let table = KeyPath::of(table);
    entries
        .iter()
        .any(|(path, entry)| path.starts_with(&table) && entry.origin != Origin::Default)
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
pub fn tree(entries: &Layer, root: &KeyPath) -> Value {
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
