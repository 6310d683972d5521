//! Settings in variables: `CONSIGN_SERVER__LISTEN` is `server.listen`.

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
    orders::read_environment(variables, &mut layer, problems);
    memory::read_environment(variables, &mut layer, problems);
    for (name, text) in variables {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !text.is_empty()) else {
            continue;
        };
        let origin = Origin::Environment { name: name.clone() };
        if !rest.contains("__") {
            if let Some(meant) = one_underscore(rest) {
                let what = format!("tables are joined by two underscores; did you mean {meant}?");
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

/// The variable that was meant by one with too few underscores, if it can be told.
fn one_underscore(rest: &str) -> Option<String> {
    if DATABASE
        .iter()
        .any(|name| name.strip_prefix(PREFIX) == Some(rest))
    {
        return None;
    }
    let word = rest.to_lowercase();
    let key = KEYS.iter().find(|key| key.path.replace('.', "_") == word)?;
    let name = key.path.replace('.', "__").to_uppercase();
    Some(format!("{PREFIX}{name}"))
}
