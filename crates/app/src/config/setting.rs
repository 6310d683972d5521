//! Settings as they are declared: one declaration each, from which the key, its bounds, its default,
//! the output of `config print-default` and the table in the documentation are made.

use consign_kernel::nearest;

use super::{kind::Kind, path::KeyPath};

/// Milliseconds of a day.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// Milliseconds of an hour.
pub const HOUR_MS: u64 = 60 * 60 * 1_000;
/// A duration in seconds.
pub const SECONDS: Kind = Kind::Number(0.001, 24.0 * 60.0 * 60.0);

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name; `*` is a name that the user chooses.
    pub key: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What it means, in Markdown.
    pub about: &'static str,
    /// Its default as TOML; none for a setting that is absent by default.
    pub default: Option<&'static str>,
    /// A value to show where there is no default, as TOML.
    pub example: Option<&'static str>,
    /// The documentation's text in place of a default.
    pub unset: &'static str,
    /// Variables of the environment besides its own, strongest first.
    pub variables: &'static [&'static str],
    /// The fields of the policy of the app's queue that it sets. Such a setting changes without a
    /// restart.
    pub policy: &'static [&'static str],
    /// The fields that follow from it beside its own meaning.
    pub bears_on: &'static [&'static str],
}

impl Setting {
    /// A setting that is absent by default.
    pub const fn new(key: &'static str, kind: Kind, about: &'static str) -> Self {
        Self {
            key,
            kind,
            about,
            default: None,
            example: None,
            unset: "–",
            variables: &[],
            policy: &[],
            bears_on: &[],
        }
    }

    /// The same with a default.
    #[must_use]
    pub const fn default(self, toml: &'static str) -> Self {
        Self {
            default: Some(toml),
            ..self
        }
    }

    /// The same with a value to show.
    #[must_use]
    pub const fn example(self, toml: &'static str) -> Self {
        Self {
            example: Some(toml),
            ..self
        }
    }

    /// The same with the documentation's text in place of a default.
    #[must_use]
    pub const fn unset(self, text: &'static str) -> Self {
        Self {
            unset: text,
            ..self
        }
    }

    /// The same with other names in the environment.
    #[must_use]
    pub const fn variables(self, names: &'static [&'static str]) -> Self {
        Self {
            variables: names,
            ..self
        }
    }

    /// The same as part of the queue's policy.
    #[must_use]
    pub const fn policy(self, fields: &'static [&'static str]) -> Self {
        Self {
            policy: fields,
            ..self
        }
    }

    /// The same with fields of the queue's policy that follow from it.
    #[must_use]
    pub const fn bears_on(self, fields: &'static [&'static str]) -> Self {
        Self {
            bears_on: fields,
            ..self
        }
    }

    /// Its table; empty at the top of the file.
    pub fn table(&self) -> &'static str {
        self.key.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// Its name within its table.
    pub fn name(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or_default()
    }
}

/// A table of settings.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What it is for, above the table in `config print-default`.
    pub about: &'static str,
    /// Whether the file may have its names in capitals.
    pub capitals: bool,
    /// Its settings, in the order of the documentation.
    pub settings: &'static [Setting],
    /// Tables within it whose settings are declared elsewhere, such as those of a sink.
    pub open: &'static [&'static str],
}

/// What a path names.
#[derive(Debug)]
pub enum KeyMatch {
    /// A setting.
    Key(&'static Setting),
    /// A table of settings.
    Table,
    /// A table whose settings are declared elsewhere, or something inside of it.
    Open,
    /// Nothing; in words, with a suggestion where there is one.
    Unknown(String),
}

/// Every setting of a program.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue(pub &'static crate::Registry);

impl Catalogue {
    /// Every setting.
    pub fn settings(self) -> impl Iterator<Item = &'static Setting> {
        self.0.sections().flat_map(|section| section.settings)
    }

    fn open(self) -> impl Iterator<Item = &'static str> {
        self.0
            .sections()
            .flat_map(|section| section.open.iter().copied())
    }

    /// What a path names.
    pub fn find(self, path: &KeyPath) -> KeyMatch {
        let mut settings = self.settings();
        if let Some(setting) = settings.find(|setting| matches(setting.key, path.segments())) {
            return KeyMatch::Key(setting);
        }
        let length = path.segments().len();
        for pattern in self.open() {
            let depth = pattern.split('.').count();
            if length >= depth && matches(pattern, &path.segments()[..depth]) {
                return KeyMatch::Open;
            }
        }
        if self.children(path.segments()).next().is_some() {
            return KeyMatch::Table;
        }
        KeyMatch::Unknown(self.unknown(path))
    }

    /// The names that the table at `segments` may have.
    fn children(self, segments: &[String]) -> impl Iterator<Item = &'static str> {
        let patterns = self
            .settings()
            .map(|setting| setting.key)
            .chain(self.open());
        let depth = segments.len();
        patterns
            .filter(move |pattern| begins(pattern, segments))
            .filter_map(move |pattern| pattern.split('.').nth(depth))
    }

    /// The error of an unknown setting, with a suggestion: a name in the same table, or the
    /// same name elsewhere.
    fn unknown(self, path: &KeyPath) -> String {
        let segments = path.segments();
        for depth in 0..segments.len() {
            let (table, rest) = segments.split_at(depth);
            let wrong = &rest[0];
            let known = |segment: &'static str| segment == "*" || segment == wrong;
            if self.children(table).any(known) {
                continue;
            }
            let mut meant = table.to_vec();
            if let Some(near) = nearest(wrong, self.children(table)) {
                meant.push(near.to_owned());
                meant.extend(rest[1..].iter().cloned());
                return suggest(&KeyPath::from(meant));
            }
            break;
        }
        let last = path.last().to_lowercase();
        let elsewhere = self.settings().find(|setting| {
            !setting.key.contains('*') && setting.key.rsplit('.').next() == Some(&last)
        });
        match elsewhere {
            Some(setting) => suggest(&KeyPath::of(setting.key)),
            None => "unknown setting; `consign config print-default` shows existing ones".into(),
        }
    }
}

fn matches(pattern: &str, segments: &[String]) -> bool {
    pattern.split('.').count() == segments.len() && begins(pattern, segments)
}

/// Whether the first segments of `pattern` are these.
fn begins(pattern: &str, segments: &[String]) -> bool {
    let mut parts = pattern.split('.');
    segments.iter().all(|segment| {
        parts
            .next()
            .is_some_and(|part| part == "*" || part == segment)
    })
}

fn suggest(meant: &KeyPath) -> String {
    format!("unknown setting; did you mean {meant}?")
}
