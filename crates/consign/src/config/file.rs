//! `consign.toml`, with the line of every value.

use serde_json::{Value, json};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Entry, Layer,
    key::{self, Found},
    orders,
    origin::Origin,
    path::KeyPath,
    problem::Problem,
};

/// Reads a file's text; `origin` makes the origin of a value from its line.
pub(crate) fn read(
    text: &str,
    origin: &dyn Fn(usize) -> Origin,
    problems: &mut Vec<Problem>,
) -> Layer {
    let mut reading = Reading {
        text,
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

struct Reading<'a> {
    text: &'a str,
    origin: &'a dyn Fn(usize) -> Origin,
    problems: &'a mut Vec<Problem>,
    layer: Layer,
}

impl Reading<'_> {
    fn table(&mut self, path: &KeyPath, table: &DeTable<'_>) {
        for (name, value) in table {
            let origin = (self.origin)(self.line(name.span().start));
            let child = orders::child(path, name.get_ref());
            if self.layer.contains_key(&child) {
                let what = "is said twice, in small and in capital letters";
                self.problems.push(Problem::at(&origin, &child, what));
            }
            self.value(child, origin, value);
        }
    }

    fn value(&mut self, path: KeyPath, origin: Origin, value: &Spanned<DeValue<'_>>) {
        let found = key::find(&path);
        let nested = value.get_ref().as_table();
        match (found, nested) {
            (Found::Table, Some(table)) | (Found::Open, Some(table)) => {
                // A table says something by being there: a queue without settings is a queue.
                let value = json!({});
                self.layer.insert(path.clone(), Entry { value, origin });
                self.table(&path, table);
            }
            (Found::Key(key), _) => {
                let value = self.plain(value);
                if let Err(what) = key.kind.check(&value) {
                    self.problems.push(Problem::at(&origin, &path, what));
                }
                self.layer.insert(path, Entry { value, origin });
            }
            (Found::Open, None) => {
                let value = self.plain(value);
                self.layer.insert(path, Entry { value, origin });
            }
            (Found::Table, None) => {
                let what = "expected a table of settings, found a value";
                self.problems.push(Problem::at(&origin, &path, what));
            }
            (Found::Unknown(hint), _) => {
                self.problems.push(Problem::at(&origin, &path, hint));
            }
        }
    }

    fn plain(&self, value: &Spanned<DeValue<'_>>) -> Value {
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
            DeValue::Array(items) => items.iter().map(|item| self.plain(item)).collect(),
            DeValue::Table(table) => {
                let pair = |(name, value): (&Spanned<_>, _)| {
                    let name: &std::borrow::Cow<'_, str> = name.get_ref();
                    (name.to_string(), self.plain(value))
                };
                Value::Object(table.iter().map(pair).collect())
            }
        }
    }

    fn line(&self, byte: usize) -> usize {
        1 + self.text[..byte.min(self.text.len())].matches('\n').count()
    }
}
