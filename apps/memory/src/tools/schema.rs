//! Every tool with its arguments and answers, described for agents.

mod evidence;
mod governance;
mod logbook;
mod memory;
mod parts;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use self::parts::answer;
use crate::{MemoryOptions, ToolSet};

/// A tool as it is announced.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does and when to use it, with an example.
    pub description: &'static str,
    /// JSON Schema of its arguments: an object.
    pub input_schema: Map<String, Value>,
    /// JSON Schema of its answer: an object. Rejections match it too.
    pub output_schema: Map<String, Value>,
    /// Whether it changes nothing.
    pub is_read_only: bool,
    /// Whether it removes or replaces data.
    pub is_destructive: bool,
    /// The smallest set that contains it.
    pub set: ToolSet,
}

impl ToolInfo {
    fn new(
        name: &'static str,
        description: &'static str,
        required: &[&str],
        properties: Value,
        answered: Value,
    ) -> Self {
        let input = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        });
        let (Value::Object(input_schema), Value::Object(output_schema)) = (input, answer(answered))
        else {
            unreachable!("invariant: written as objects")
        };
        Self {
            name,
            description,
            input_schema,
            output_schema,
            is_read_only: true,
            is_destructive: false,
            set: ToolSet::Memory,
        }
    }

    fn writing(self) -> Self {
        Self {
            is_read_only: false,
            ..self
        }
    }

    fn destroying(self) -> Self {
        Self {
            is_read_only: false,
            is_destructive: true,
            ..self
        }
    }

    fn of_all(self) -> Self {
        Self {
            set: ToolSet::All,
            ..self
        }
    }
}

/// Every tool.
pub fn list() -> &'static [ToolInfo] {
    static TOOLS: LazyLock<Vec<ToolInfo>> = LazyLock::new(|| {
        [
            memory::tools(),
            governance::tools(),
            evidence::tools(),
            logbook::writing(),
            logbook::reading(),
        ]
        .concat()
    });
    &TOOLS
}

/// The tools that a gateway with these settings offers.
pub fn offered(options: &MemoryOptions) -> impl Iterator<Item = &'static ToolInfo> {
    let set = options.tool_set;
    let is_offered = move |tool: &&ToolInfo| set == ToolSet::All || tool.set == set;
    list().iter().filter(is_offered)
}

/// The tool of this name, if a gateway with these settings offers it.
pub fn find(options: &MemoryOptions, name: &str) -> Option<&'static ToolInfo> {
    offered(options).find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptions like "Which." are useless to an agent.
    fn is_informative(what: &str, description: &Value) {
        let text = description.as_str().unwrap_or_default();
        let words = text.split_whitespace().count();
        assert!(words >= 4, "{what}: {text:?}");
    }

    fn check(what: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let what = format!("{what}.{name}");
            is_informative(&what, &property["description"]);
            assert!(
                property["type"].is_string() || property["type"].is_array(),
                "{what}"
            );
            check(&what, property);
            check(&what, &property["items"]);
        }
        let names = schema["properties"].as_object();
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            assert!(
                names.is_some_and(|names| names.contains_key(name)),
                "{what}.{name}"
            );
        }
    }

    #[test]
    fn every_tool_and_every_argument_is_explained() {
        for tool in list() {
            let words = tool.description.split_whitespace().count();
            assert!(words >= 25, "{}: {words} words", tool.name);
            assert!(tool.description.contains("Example: "), "{}", tool.name);
            check(tool.name, &Value::Object(tool.input_schema.clone()));
            check(tool.name, &Value::Object(tool.output_schema.clone()));
            let schema = Value::Object(tool.input_schema.clone());
            // Some models reject schemas with alternatives at the top level.
            for word in ["anyOf", "oneOf", "allOf"] {
                assert!(schema.get(word).is_none(), "{}", tool.name);
            }
            if let Some(kind) = schema["properties"]
                .get("kind")
                .filter(|_| tool.name.starts_with("memory_"))
            {
                assert_eq!(
                    kind["enum"].as_array().map(Vec::len),
                    Some(6),
                    "{}",
                    tool.name
                );
            }
        }
        let schema = |name: &str| {
            let tool = list().iter().find(|tool| tool.name == name).unwrap();
            Value::Object(tool.input_schema.clone())
        };
        let store = schema("memory_store");
        assert_eq!(store["required"], json!(["payload_md"]));
        let card = &store["properties"]["card"];
        let required = json!(["kind", "owner", "module", "summary", "details", "evidence"]);
        assert_eq!(card["required"], required);
        let evidence = &store["properties"]["evidence"]["items"];
        assert_eq!(evidence["required"], json!(["uri"]));
        let upload = schema("evidence_upload");
        let types = upload["properties"]["content_type"]["enum"].as_array();
        assert_eq!(types.map(Vec::len), Some(11));
    }

    /// Examples are valid calls.
    #[test]
    fn examples_are_arguments_of_their_tools() {
        for tool in list() {
            let (_, example) = tool.description.split_once("Example: ").unwrap();
            let mut values = serde_json::Deserializer::from_str(example).into_iter::<Value>();
            let example = values.next().unwrap().unwrap();
            let given = example.as_object().unwrap();
            let properties = tool.input_schema["properties"].as_object().unwrap();
            for name in given.keys() {
                assert!(properties.contains_key(name), "{}: {name}", tool.name);
            }
            for name in tool.input_schema["required"].as_array().unwrap() {
                assert!(
                    given.contains_key(name.as_str().unwrap()),
                    "{}: {name}",
                    tool.name
                );
            }
        }
    }

    #[test]
    fn the_small_set_has_no_evidence_and_no_logbook() {
        let small = MemoryOptions {
            tool_set: ToolSet::Memory,
            ..MemoryOptions::default()
        };
        let names: Vec<&str> = offered(&small).map(|tool| tool.name).collect();
        assert!(
            names.contains(&"memory_store") && names.contains(&"governance_get"),
            "{names:?}"
        );
        let is_other = |name: &&str| name.starts_with("logbook_") || name.starts_with("evidence_");
        assert_eq!(names.iter().find(|name| is_other(name)), None);
        assert_eq!(offered(&MemoryOptions::default()).count(), list().len());
        assert_eq!(find(&small, "logbook_get_kv"), None);
    }
}
