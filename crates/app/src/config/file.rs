//! `consign.toml`, with the line of every value.

use serde_json::{Value, json};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Catalogue, Entry, Layer, origin::Origin, path::KeyPath, problem::Problem, setting::KeyMatch,
};

/// Reads a file's text; `origin` makes the origin of a value from its line.
pub(super) fn read(
    text: &str,
    catalogue: Catalogue,
    origin: &dyn Fn(usize) -> Origin,
    problems: &mut Vec<Problem>,
) -> Layer {
    let mut reading = FileReader {
        text,
        catalogue,
        origin,
        problems,
        layer: Layer::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let line = reading.line(error.span().map_or(0, |span| span.start));
        let what = error.message().trim().replace('\n', ", ");
        let problem = Problem::at(&origin(line), &KeyPath::root(), what);
        reading.problems.push(problem);
    }
    if reading.problems.is_empty() {
        reading.table(&KeyPath::root(), table.get_ref());
    }
    reading.layer
}

/// A value as TOML writes it; none where it is no value.
pub(super) fn value(toml: &str) -> Option<Value> {
    let text = format!("value = {toml}");
    let table = DeTable::parse(&text).ok()?;
    table.get_ref().get("value").map(plain)
}

struct FileReader<'a> {
    text: &'a str,
    catalogue: Catalogue,
    origin: &'a dyn Fn(usize) -> Origin,
    problems: &'a mut Vec<Problem>,
    layer: Layer,
}

impl FileReader<'_> {
    fn table(&mut self, path: &KeyPath, table: &DeTable<'_>) {
        for (name, value) in table {
            let origin = (self.origin)(self.line(name.span().start));
            let child = self.child(path, name.get_ref());
            if self.layer.contains_key(&child) {
                let what = "is set twice, in lower and in upper case";
                self.problems.push(Problem::at(&origin, &child, what));
            }
            self.value(child, origin, value);
        }
    }

    fn value(&mut self, path: KeyPath, origin: Origin, value: &Spanned<DeValue<'_>>) {
        let found = self.catalogue.find(&path);
        let nested = value.get_ref().as_table();
        match (found, nested) {
            (KeyMatch::Table, Some(table)) | (KeyMatch::Open, Some(table)) => {
                // A table counts even when empty: a queue without settings is a queue.
                let value = json!({});
                self.layer.insert(path.clone(), Entry { value, origin });
                self.table(&path, table);
            }
            (KeyMatch::Key(setting), _) => {
                let value = plain(value);
                if let Err(what) = setting.kind.check(&value) {
                    self.problems.push(Problem::at(&origin, &path, what));
                }
                self.layer.insert(path, Entry { value, origin });
            }
            (KeyMatch::Open, None) => {
                let value = plain(value);
                self.layer.insert(path, Entry { value, origin });
            }
            (KeyMatch::Table, None) => {
                let what = "expected a table of settings, found a value";
                self.problems.push(Problem::at(&origin, &path, what));
            }
            (KeyMatch::Unknown(hint), _) => {
                self.problems.push(Problem::at(&origin, &path, hint));
            }
        }
    }

    /// A name in a table; where the table allows it, capitals do as well.
    fn child(&self, table: &KeyPath, name: &str) -> KeyPath {
        let allows = |section: &super::Section| {
            section.capitals && matches!(table.segments(), [only] if only == section.name)
        };
        let is_capital = !name.contains(|c: char| c.is_lowercase());
        if is_capital && self.catalogue.0.sections().any(allows) {
            table.child(&name.to_lowercase())
        } else {
            table.child(name)
        }
    }

    fn line(&self, byte: usize) -> usize {
        1 + self.text[..byte.min(self.text.len())].matches('\n').count()
    }
}

fn plain(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Into::into)
        }
        DeValue::Float(number) => number
            .as_str()
            .parse::<f64>()
            .map_or(Value::Null, Into::into),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(plain).collect(),
        DeValue::Table(table) => {
            let pair = |(name, value): (&Spanned<_>, _)| {
                let name: &std::borrow::Cow<'_, str> = name.get_ref();
                (name.to_string(), plain(value))
            };
            Value::Object(table.iter().map(pair).collect())
        }
    }
}
