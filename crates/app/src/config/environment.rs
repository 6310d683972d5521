//! Settings in variables: `CONSIGN_SERVER__LISTEN` is `server.listen`.

use consign_kernel::nearest;
use serde_json::Value;

use super::{
    Catalogue, Entry, Layer, Setting, kind::Kind, origin::Origin, path::KeyPath, problem::Problem,
    setting::KeyMatch,
};
use crate::App;

const PREFIX: &str = "CONSIGN_";

/// Variables that are no settings: those of the command line, of tests, and those that the exec sink
/// sets for its program, which may call consign.
const OTHERS: &[&str] = &[
    "CONFIG",
    "DATABASE_URL",
    "APPS",
    "TOKEN",
    "FAILPOINT",
    "FAILPOINT_FILE",
    "QUEUE",
    "KEY",
    "GROUP",
    "MESSAGE_ID",
    "ATTEMPT",
    "FENCE",
    "IN_DOUBT",
];

/// Variables that others set, and what stands before an underscore in their names: Kubernetes for a
/// service named `consign`, and the project's tests.
const FOREIGN: &[&str] = &["SERVICE", "PORT", "TEST"];

fn is_foreign(rest: &str) -> bool {
    FOREIGN.contains(&rest.split('_').next().unwrap_or_default())
}

/// A variable that is set. An empty one counts as absent.
fn find<'v>(variables: &'v [(String, String)], wanted: &str) -> Option<&'v (String, String)> {
    variables
        .iter()
        .find(|(name, text)| name == wanted && !text.is_empty())
}

/// Reads what the environment sets of the engine under any name, and of the apps under `CONSIGN_`.
pub(super) fn read(
    catalogue: Catalogue,
    variables: &[(String, String)],
    problems: &mut Vec<Problem>,
) -> Layer {
    let engine = catalogue
        .0
        .sections
        .iter()
        .flat_map(|section| section.settings);
    let mut layer = read_names(engine, variables, problems);
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !text.is_empty()) else {
            continue;
        };
        if !rest.contains("__") {
            continue;
        }
        let origin = Origin::Environment { name: name.clone() };
        let segments: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
        let path = KeyPath::from(segments);
        let kind = match catalogue.find(&path) {
            KeyMatch::Key(setting) => setting.kind,
            KeyMatch::Open => Kind::Any,
            KeyMatch::Table => {
                let what = "is a table of settings; name one of them";
                problems.push(Problem::at(&origin, &path, what));
                continue;
            }
            KeyMatch::Unknown(hint) => {
                problems.push(Problem::at(&origin, &path, hint));
                continue;
            }
        };
        insert(&mut layer, path, kind, text, origin, problems);
    }
    layer
}

/// Reads the variables of an app: those of its own settings, and those that it has for settings of the
/// engine. `others` are the settings from elsewhere.
pub(super) fn read_app(
    app: &dyn App,
    catalogue: Catalogue,
    variables: &[(String, String)],
    others: &Layer,
    problems: &mut Vec<Problem>,
) -> Layer {
    let mut layer = read_names(app.settings().settings.iter(), variables, problems);
    for (name, key) in app.engine_variables() {
        let Some((name, text)) = find(variables, name) else {
            continue;
        };
        let path = KeyPath::of(key);
        let origin = Origin::Environment { name: name.clone() };
        match catalogue.find(&path) {
            KeyMatch::Key(setting) if matches!(setting.kind, Kind::Address) => {
                let address = others.get(&path).and_then(|entry| entry.value.as_str());
                let port = with_port(address, text, &origin, problems);
                layer.extend(port.map(|value| (path, Entry { value, origin })));
            }
            KeyMatch::Key(setting) => {
                insert(&mut layer, path, setting.kind, text, origin, problems);
            }
            _ => unreachable!("invariant: {key} is a setting of the engine"),
        }
    }
    layer
}

/// An address with another port. One that is no address is rejected where it was set.
fn with_port(
    address: Option<&str>,
    text: &str,
    origin: &Origin,
    problems: &mut Vec<Problem>,
) -> Option<Value> {
    let port = Kind::Whole(1, u16::MAX.into());
    let value = port.parse(text);
    if let Err(what) = port.check(&value) {
        problems.push(Problem::at(origin, &KeyPath::root(), what));
        return None;
    }
    let (host, _) = address?.rsplit_once(':')?;
    Some(format!("{host}:{value}").into())
}

fn read_names<'s>(
    settings: impl Iterator<Item = &'s Setting>,
    variables: &[(String, String)],
    problems: &mut Vec<Problem>,
) -> Layer {
    let mut layer = Layer::new();
    for setting in settings {
        let mut names = setting.variables.iter();
        if let Some((name, text)) = names.find_map(|name| find(variables, name)) {
            let origin = Origin::Environment { name: name.clone() };
            let path = KeyPath::of(setting.key);
            insert(&mut layer, path, setting.kind, text, origin, problems);
        }
    }
    layer
}

fn insert(
    layer: &mut Layer,
    path: KeyPath,
    kind: Kind,
    text: &str,
    origin: Origin,
    problems: &mut Vec<Problem>,
) {
    let value = kind.parse(text);
    if let Err(what) = kind.check(&value) {
        problems.push(Problem::at(&origin, &path, what));
    }
    layer.insert(path, Entry { value, origin });
}

/// A problem for every variable with the prefix that is neither a setting nor otherwise used: ignored,
/// a misspelt database setting would select another database. `entries` may name variables that
/// hold secrets.
pub(super) fn reject_unknown(
    catalogue: Catalogue,
    variables: &[(String, String)],
    entries: &Layer,
    problems: &mut Vec<Problem>,
) {
    let is_secret = |name: &str| {
        let mut values = entries.iter();
        values.any(|(path, entry)| path.last().ends_with("_env") && entry.value == name)
    };
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !text.is_empty()) else {
            continue;
        };
        let is_known = OTHERS.contains(&rest) || is_foreign(rest);
        if rest.contains("__") || is_known || is_secret(name) {
            continue;
        }
        let origin = Origin::Environment { name: name.clone() };
        let what = misnamed(catalogue, rest);
        problems.push(Problem::at(&origin, &KeyPath::root(), what));
    }
}

/// A suggestion for a variable without two underscores.
fn misnamed(catalogue: Catalogue, rest: &str) -> String {
    let settings = catalogue.settings().map(|setting| setting.key);
    let settings = settings.filter(|key| !key.contains('*'));
    let joined: Vec<(String, &str)> = settings
        .map(|key| (key.replace('.', "_").to_uppercase(), key))
        .collect();
    let variable = |word: &str| {
        let found = joined.iter().find(|(joined, _)| joined == word);
        found.map(|(_, key)| key.replace('.', "__").to_uppercase())
    };
    if let Some(name) = variable(rest) {
        return format!("tables are joined by two underscores; did you mean {PREFIX}{name}?");
    }
    let is_part = |known: &&str| known.split('_').any(|part| part == rest);
    let other = nearest(rest, OTHERS.iter().copied());
    let other = other.or_else(|| OTHERS.iter().copied().find(is_part));
    let meant = other.map(str::to_owned).or_else(|| {
        let words = joined.iter().map(|(joined, _)| joined.as_str());
        variable(nearest(rest, words)?)
    });
    match meant {
        Some(meant) => format!("unknown variable; did you mean {PREFIX}{meant}?"),
        None => format!(
            "unknown variable; settings are {PREFIX}TABLE__NAME, and `consign config \
             print-default` shows existing ones"
        ),
    }
}
