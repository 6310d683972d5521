//! Settings in variables: `CONSIGN_SERVER__LISTEN` is `server.listen`.

use consign_kernel::nearest;

use super::{
    Entry, Layer,
    key::{self, Found, KEYS},
    kind::Kind,
    memory, orders,
    origin::Origin,
    path::KeyPath,
    problem::Problem,
};

const PREFIX: &str = "CONSIGN_";

/// Names for the database that many programs know, weakest first.
const DATABASE: &[&str] = &["POSTGRES_DSN", "DATABASE_URL", "CONSIGN_DATABASE_URL"];

/// Other names of switches, each weaker than its own.
const SWITCHES: &[(&str, &str)] = &[
    ("AUTO_MIGRATE_ON_STARTUP", "database.migrate_on_start"),
    ("LOGBOOK_CHECK_ON_STARTUP", "database.check_on_start"),
];

/// The port of `server.listen` by itself.
const PORT: &str = "GATEWAY_PORT";

/// Variables that are no settings.
const OTHERS: &[&str] = &["CONFIG", "DATABASE_URL"];

/// Reads what the environment says. An empty variable counts as absent.
pub(crate) fn read(variables: &[(String, String)], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::new();
    for known in DATABASE {
        let said = variables
            .iter()
            .find(|(name, text)| name == known && !text.is_empty());
        if let Some((name, text)) = said {
            let origin = Origin::Environment { name: name.clone() };
            let value = text.as_str().into();
            layer.insert(KeyPath::of("database.url"), Entry { value, origin });
        }
    }
    for (known, path) in SWITCHES {
        let said = variables
            .iter()
            .find(|(name, text)| name == known && !text.is_empty());
        if let Some((name, text)) = said {
            let origin = Origin::Environment { name: name.clone() };
            let (path, value) = (KeyPath::of(path), Kind::Flag.parse(text));
            if let Err(what) = Kind::Flag.check(&value) {
                problems.push(Problem::at(&origin, &path, what));
            }
            layer.insert(path, Entry { value, origin });
        }
    }
    orders::read_environment(variables, &mut layer, problems);
    memory::read_environment(variables, &mut layer, problems);
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !text.is_empty()) else {
            continue;
        };
        let origin = Origin::Environment { name: name.clone() };
        if !rest.contains("__") {
            if let Some(what) = misnamed(rest) {
                problems.push(Problem::at(&origin, &KeyPath::root(), what));
            }
            continue;
        }
        let segments: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
        let path = KeyPath::from(segments);
        let kind = match key::find(&path) {
            Found::Key(key) => key.kind,
            Found::Open => Kind::Any,
            Found::Table => {
                let what = "is a table of settings; name one of them";
                problems.push(Problem::at(&origin, &path, what));
                continue;
            }
            Found::Unknown(hint) => {
                problems.push(Problem::at(&origin, &path, hint));
                continue;
            }
        };
        let value = kind.parse(text);
        if let Err(what) = kind.check(&value) {
            problems.push(Problem::at(&origin, &path, what));
        }
        layer.insert(path, Entry { value, origin });
    }
    layer
}

/// What is wrong with a variable without two underscores, where it can be told: others may have
/// variables of this prefix too.
fn misnamed(rest: &str) -> Option<String> {
    if OTHERS.contains(&rest) {
        return None;
    }
    let word = rest.to_lowercase();
    let key = KEYS.iter().find(|key| key.path.replace('.', "_") == word);
    if let Some(key) = key {
        let name = key.path.replace('.', "__").to_uppercase();
        let meant = format!("did you mean {PREFIX}{name}?");
        return Some(format!("tables are joined by two underscores; {meant}"));
    }
    // Left out in silence, a misspelt database would be another database.
    let is_part = |known: &&str| known.split('_').any(|part| part == rest);
    let near = nearest(rest, OTHERS.iter().copied());
    let meant = near.or_else(|| OTHERS.iter().copied().find(is_part))?;
    Some(format!(
        "there is no such variable; did you mean {PREFIX}{meant}?"
    ))
}

/// Takes the port over into the address to listen at, unless the environment has a whole one.
/// `others` are the settings from elsewhere.
pub(super) fn take_port(
    variables: &[(String, String)],
    said: &mut Layer,
    others: &Layer,
    problems: &mut Vec<Problem>,
) {
    let path = KeyPath::of("server.listen");
    let port = variables
        .iter()
        .find(|(name, text)| name == PORT && !text.is_empty());
    let (Some((name, text)), false) = (port, said.contains_key(&path)) else {
        return;
    };
    let origin = Origin::Environment { name: name.clone() };
    let value = Kind::Whole(1, u16::MAX.into()).parse(text);
    if let Err(what) = Kind::Whole(1, u16::MAX.into()).check(&value) {
        problems.push(Problem::at(&origin, &KeyPath::root(), what));
        return;
    }
    let listen = others.get(&path).and_then(|entry| entry.value.as_str());
    let host = listen.and_then(|listen| listen.rsplit_once(':'));
    // One that is no address is refused where it was said.
    if let Some((host, _)) = host {
        let value = format!("{host}:{value}").into();
        said.insert(path, Entry { value, origin });
    }
}
