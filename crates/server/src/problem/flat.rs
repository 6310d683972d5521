//! Problems in the flat format of some contracts: `{"error", "message"}`.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};

use super::{Problem, codes, codes::Meaning};

/// A problem in the flat format.
#[derive(Clone, Debug)]
pub struct Flat(Problem);

impl From<Problem> for Flat {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<consign_kernel::Error> for Flat {
    fn from(error: consign_kernel::Error) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Flat {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let mut body = Map::new();
        body.insert("error".into(), flat_code(problem.meaning).into());
        body.insert("message".into(), problem.detail.clone().into());
        for name in ["outcome", "reason", "kept_as_evidence"] {
            if let Some(value) = problem.context.get(name) {
                body.insert(name.into(), value.clone());
            }
        }
        let retry_after = problem
            .headers
            .iter()
            .find(|(name, _)| *name == header::RETRY_AFTER);
        let seconds = retry_after
            .and_then(|(_, value)| value.to_str().ok())
            .and_then(|text| text.parse::<u64>().ok());
        if let Some(seconds) = seconds {
            body.insert("retry_after".into(), seconds.into());
        }
        problem.answer("application/json", &Value::Object(body))
    }
}

/// A code in the contract's spelling.
pub fn flat_code(meaning: &Meaning) -> String {
    match meaning.code {
        // The contract's own code for it.
        code if code == codes::INTERNAL.code => "INTERNAL_ERROR".to_owned(),
        code => code.to_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::to_bytes;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_a_program_needs_is_kept_and_the_rest_is_left_out() {
        let problem = Problem::new(codes::OVERLOADED, "busy")
            .with("outcome", "not_done")
            .with("secret", "x")
            .retry_after(Duration::from_millis(1_500));
        let response = Flat::from(problem).into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers()["retry-after"], "2");
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({
            "error": "OVERLOADED", "message": "busy", "outcome": "not_done", "retry_after": 2,
        });
        assert_eq!(body, expected);
        let defect = Flat::from(super::super::internal("x")).into_response();
        let body = to_bytes(defect.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"], "INTERNAL_ERROR");
    }
}
