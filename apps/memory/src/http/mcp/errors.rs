//! JSON-RPC errors with structured data.

use rmcp::{ErrorData, model::ErrorCode};
use serde_json::{Map, Value, json};

use crate::{Correlation, redact};

/// Supported methods.
pub(super) const METHODS: [&str; 5] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/call",
    "tools/list",
];

/// Why a request of the protocol was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    ParseError,
    InvalidRequest,
    MethodNotFound,
    MissingRequiredParam,
    InvalidParamType,
    InvalidParamValue,
    UnknownTool,
    HeaderMismatch,
    MissingClientCapability,
    UnsupportedProtocolVersion,
    LogbookDbUnavailable,
    InternalError,
}

impl Reason {
    /// The default reason of a code.
    fn of_code(code: i64) -> Self {
        match code {
            -32700 => Self::ParseError,
            -32600 => Self::InvalidRequest,
            -32601 => Self::MethodNotFound,
            -32602 => Self::InvalidParamValue,
            -32020 => Self::HeaderMismatch,
            -32021 => Self::MissingClientCapability,
            -32022 => Self::UnsupportedProtocolVersion,
            _ => Self::InternalError,
        }
    }

    pub(super) fn code(self) -> i32 {
        match self {
            Self::ParseError => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::MissingRequiredParam
            | Self::InvalidParamType
            | Self::InvalidParamValue
            | Self::UnknownTool => -32602,
            Self::HeaderMismatch => -32020,
            Self::MissingClientCapability => -32021,
            Self::UnsupportedProtocolVersion => -32022,
            Self::LogbookDbUnavailable => -32001,
            Self::InternalError => -32603,
        }
    }

    fn category(self) -> &'static str {
        match self {
            Self::MissingRequiredParam
            | Self::InvalidParamType
            | Self::InvalidParamValue
            | Self::UnknownTool => "validation",
            Self::LogbookDbUnavailable => "dependency",
            Self::InternalError => "internal",
            _ => "protocol",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::ParseError => "PARSE_ERROR",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::MethodNotFound => "METHOD_NOT_FOUND",
            Self::MissingRequiredParam => "MISSING_REQUIRED_PARAM",
            Self::InvalidParamType => "INVALID_PARAM_TYPE",
            Self::InvalidParamValue => "INVALID_PARAM_VALUE",
            Self::UnknownTool => "UNKNOWN_TOOL",
            Self::HeaderMismatch => "HEADER_MISMATCH",
            Self::MissingClientCapability => "MISSING_CLIENT_CAPABILITY",
            Self::UnsupportedProtocolVersion => "UNSUPPORTED_PROTOCOL_VERSION",
            Self::LogbookDbUnavailable => "LOGBOOK_DB_UNAVAILABLE",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    fn data(self, details: Option<Value>, correlation: &Correlation) -> Map<String, Value> {
        let mut data = Map::new();
        data.insert("category".into(), self.category().into());
        data.insert("reason".into(), self.as_str().into());
        // A retry of any other request fails again.
        let is_retryable = self == Self::LogbookDbUnavailable;
        data.insert("retryable".into(), is_retryable.into());
        data.insert("correlation_id".into(), correlation.as_str().into());
        if let Some(mut details) = details {
            redact::json(&mut details);
            data.insert("details".into(), details);
        }
        data
    }

    /// The SDK's error.
    pub(super) fn error(
        self,
        message: &str,
        details: Option<Value>,
        correlation: &Correlation,
    ) -> ErrorData {
        let data = Value::Object(self.data(details, correlation));
        ErrorData::new(ErrorCode(self.code()), redact::text(message), Some(data))
    }

    /// The JSON error.
    pub(super) fn body(self, message: &str, id: Value, correlation: &Correlation) -> Value {
        json!({
            "jsonrpc": "2.0", "id": id,
            "error": {
                "code": self.code(), "message": redact::text(message),
                "data": self.data(None, correlation),
            },
        })
    }
}

/// Details of an unknown method.
pub(super) fn methods(method: &str) -> Value {
    json!({"method": method, "available_methods": METHODS})
}

/// Adds our fields to an SDK error. Its own fields stay.
pub(super) fn complete(error: &mut Map<String, Value>, method: &str, correlation: &Correlation) {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or(-32603);
    let reason = Reason::of_code(code);
    let own_data = match error.remove("data") {
        Some(Value::Object(data)) => data,
        None | Some(Value::Null) => Map::new(),
        Some(other) => Map::from_iter([("details".to_owned(), other)]),
    };
    let details = (reason == Reason::MethodNotFound).then(|| methods(method));
    let mut data = reason.data(details, correlation);
    data.extend(own_data);
    error.insert("data".into(), Value::Object(data));
    let message = match reason {
        Reason::InternalError => "the request failed; the server's log has more".to_owned(),
        Reason::MethodNotFound => format!("unknown method {method:?}"),
        _ => redact::text(error.get("message").and_then(Value::as_str).unwrap_or("")),
    };
    error.insert("message".into(), message.into());
}

/// The same for an error that is returned to the SDK.
pub(super) fn completed(error: ErrorData, method: &str, correlation: &Correlation) -> ErrorData {
    let code = error.code;
    let mut fields = Map::from_iter([
        ("code".to_owned(), json!(code.0)),
        ("message".to_owned(), json!(error.message)),
        ("data".to_owned(), error.data.unwrap_or_default()),
    ]);
    complete(&mut fields, method, correlation);
    let message = match fields.remove("message") {
        Some(Value::String(message)) => message,
        _ => String::new(),
    };
    ErrorData::new(code, message, fields.remove("data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_what_its_code_means() {
        for code in [
            -32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022,
        ] {
            assert_eq!(i64::from(Reason::of_code(code).code()), code);
        }
    }

    #[test]
    fn an_error_of_the_sdk_keeps_its_fields_and_gets_the_rest() {
        let correlation = Correlation::of_fence(1);
        let mut error = Map::from_iter([
            ("code".to_owned(), json!(-32022)),
            ("message".to_owned(), json!("no, password=hunter2")),
            ("data".to_owned(), json!({"supported": ["2025-11-25"]})),
        ]);
        complete(&mut error, "tools/list", &correlation);
        let expected = json!({
            "code": -32022, "message": "no, password=[REDACTED]",
            "data": {
                "category": "protocol", "reason": "UNSUPPORTED_PROTOCOL_VERSION",
                "retryable": false, "correlation_id": "corr-0000000000000001",
                "supported": ["2025-11-25"],
            },
        });
        assert_eq!(Value::Object(error), expected);
    }
}
