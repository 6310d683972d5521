//! Trace context in the headers of a message.

use opentelemetry::propagation::Extractor;
use serde_json::{Map, Value};

/// A message's headers as the propagator reads them; names are lower case by convention.
pub(super) struct Headers<'m>(pub(super) &'m Map<String, Value>);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}
