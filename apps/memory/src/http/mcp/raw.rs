//! Checks the raw text of a tool's arguments, before numbers are rounded and repeated names are
//! lost.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::tools::ArgumentFault;

/// A request of the protocol, or the plain form; a repeated name is an error.
#[derive(Deserialize)]
struct Request<'t> {
    #[serde(rename = "jsonrpc")]
    _jsonrpc: Option<IgnoredAny>,
    #[serde(rename = "id")]
    _id: Option<IgnoredAny>,
    #[serde(rename = "method")]
    _method: Option<IgnoredAny>,
    #[serde(borrow)]
    params: Option<&'t RawValue>,
    #[serde(rename = "tool")]
    _tool: Option<IgnoredAny>,
    #[serde(borrow)]
    arguments: Option<&'t RawValue>,
}

#[derive(Deserialize)]
struct Params<'t> {
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(borrow)]
    arguments: Option<&'t RawValue>,
}

/// The problem of the arguments in the JSON text of a request, if any; an error if the request
/// itself has a repeated name.
pub(in crate::http) fn argument_fault(request: &str) -> Result<Option<ArgumentFault>, String> {
    if !request.trim_ascii_start().starts_with('{') {
        return Ok(None);
    }
    let in_words = |error: serde_json::Error| error.to_string();
    let request: Request<'_> = serde_json::from_str(request).map_err(in_words)?;
    let params = request.params.map(RawValue::get);
    let params = params.filter(|params| params.starts_with('{'));
    let params: Option<Params<'_>> = params
        .map(serde_json::from_str)
        .transpose()
        .map_err(in_words)?;
    let inside = params.and_then(|params| params.arguments);
    let arguments = request.arguments.or(inside).map(RawValue::get);
    Ok(arguments.and_then(ArgumentFault::find))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_in_either_form() {
        let fault = r#"{"x": {"n": 0.12345678901234567890}}"#;
        for (request, has_fault) in [
            (format!(r#"{{"tool": "t", "arguments": {fault}}}"#), true),
            (
                format!(
                    r#" {{"jsonrpc": "2.0", "id": 1.5, "params": {{"name": "t", "arguments": {fault}}}}}"#
                ),
                true,
            ),
            (r#"{"tool": "t", "arguments": {"x": 1}}"#.to_owned(), false),
            (
                r#"{"tool": "t", "params": [0.12345678901234567890]}"#.to_owned(),
                false,
            ),
            ("[]".to_owned(), false),
        ] {
            let found = argument_fault(&request).unwrap();
            assert_eq!(found.is_some(), has_fault, "{request}");
        }
        for twice in [
            r#"{"tool": "t", "arguments": {}, "arguments": {}}"#,
            r#"{"method": "tools/call", "params": {"arguments": {}, "arguments": {}}}"#,
        ] {
            let why = argument_fault(twice).unwrap_err();
            assert!(why.contains("duplicate field `arguments`"), "{why}");
        }
    }
}
