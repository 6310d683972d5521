//! Reading requests; errors name the position.

use axum::{
    body::{Bytes, to_bytes},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use consign_kernel::{MessageId, QueueName, Token, nearest, quoted};
use serde::de::DeserializeOwned;

use crate::{
    gate::values,
    problem::{Problem, codes},
};

/// A JSON body. Anything not declared as JSON is rejected, so that a web page cannot make a browser
/// send one without a preflight.
#[derive(Debug)]
pub struct Json<T>(pub T);

/// A JSON body that may be left out.
#[derive(Debug)]
pub struct MaybeJson<T>(pub T);

/// The parameters after the question mark.
#[derive(Debug)]
pub struct Params<T>(pub T);

/// The one variable part of the path.
#[derive(Debug)]
pub struct InPath<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (headers, bytes) = whole(request).await?;
        check_type(&headers, "application/json")?;
        Ok(Self(parse(&bytes)?))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (headers, bytes) = whole(request).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        check_type(&headers, "application/json")?;
        Ok(Self(parse(&bytes)?))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::<T>::try_from_uri(&parts.uri).map_err(|rejection| {
            let text = rejection.body_text();
            let why = text.split_once(": ").map_or(text.as_str(), |(_, why)| why);
            let problem = Problem::new(codes::BAD_QUERY, in_words(why));
            problem.with("suggestion", suggestion(why))
        })?;
        Ok(Self(query.0))
    }
}

impl<S: Send + Sync, T: Segment> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|error| Problem::invalid("path", &error.body_text()))?;
        T::parse(&text).map(Self)
    }
}

/// What a variable part of a path can be.
pub trait Segment: Sized {
    /// Reads it, or names what is wrong with it.
    fn parse(text: &str) -> Result<Self, Problem>;
}

impl Segment for QueueName {
    fn parse(text: &str) -> Result<Self, Problem> {
        Ok(text.parse()?)
    }
}

impl Segment for MessageId {
    fn parse(text: &str) -> Result<Self, Problem> {
        let id = text.parse().map(MessageId);
        let whole = || format!("must be a whole number up to {}", i64::MAX);
        id.map_err(|_| Problem::out_of_bounds("id", quoted(text), &whole()))
    }
}

impl Segment for Token {
    /// Never repeats the text: a token is a permission, even with a typing error in it.
    fn parse(text: &str) -> Result<Self, Problem> {
        let token = text.parse().map(Self);
        token.map_err(|_| Problem::invalid("token", "must be a UUID"))
    }
}

impl Segment for String {
    fn parse(text: &str) -> Result<Self, Problem> {
        Ok(text.to_owned())
    }
}

/// The headers and the body of a request. The gate has read the body already, within its limits.
pub async fn whole(request: Request) -> Result<(HeaderMap, Bytes), Problem> {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, usize::MAX).await;
    let bytes = bytes.map_err(|error| crate::problem::internal(error.to_string()))?;
    Ok((parts.headers, bytes))
}

/// Whether the body is declared as `wanted`.
pub(crate) fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let declared = headers.get(header::CONTENT_TYPE);
    let declared = declared.and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = declared.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case(wanted)
}

/// Rejects a body that is not declared as `wanted`.
pub fn check_type(headers: &HeaderMap, wanted: &str) -> Result<(), Problem> {
    if is_type(headers, wanted) {
        return Ok(());
    }
    let detail = format!("send `Content-Type: {wanted}`");
    Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// A body, or where it is wrong.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    values::check(bytes)?;
    parse_messages(bytes)
}

/// The same for messages, which keep their payloads as text: the queues bound those.
pub(crate) fn parse_messages<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // serde would take a list for the fields of an object, in their order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        let detail = "the body must be an object, and is an array";
        return Err(Problem::new(codes::BAD_JSON, detail).with("path", "."));
    }
    // Keeping track of the path costs time, and most bodies are well.
    serde_json::from_slice(bytes).map_err(|error| wrong::<T>(bytes, &error))
}

fn wrong<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(found) => found.path().to_string(),
        // Only what follows the value is wrong.
        Ok(_) => ".".to_owned(),
    };
    let why = error.to_string();
    let meaning = if why.starts_with("unknown field") {
        codes::UNKNOWN_FIELD
    } else {
        codes::BAD_JSON
    };
    // An unknown field is named by the error itself, and is the last part of the path.
    let place = match path.rsplit_once('.') {
        Some((table, _)) if meaning.code == codes::UNKNOWN_FIELD.code => table,
        None if meaning.code == codes::UNKNOWN_FIELD.code => "",
        _ => path.as_str(),
    };
    let place = match place {
        "." | "" => String::new(),
        place => format!("{place}: "),
    };
    Problem::new(meaning, format!("{place}{}", in_words(&why)))
        .with("path", path)
        .with("line", error.line())
        .with("column", error.column())
        .with("suggestion", suggestion(&why))
}

/// Errors of serde and the standard library, in the vocabulary of the API.
fn in_words(why: &str) -> String {
    if let Some((unknown, known)) = unknown_field(why) {
        let near = nearest(unknown, known.iter().copied());
        let near = near.map(|name| format!(" (did you mean {name:?}?)"));
        let near = near.unwrap_or_default();
        let known = known.join(", ");
        return format!("unknown field {unknown:?}{near}; known fields: {known}");
    }
    [
        ("invalid digit found in string", "must be a whole number"),
        (
            "cannot parse integer from empty string",
            "must be a whole number",
        ),
        ("number too large to fit in target type", "is too large"),
        ("number too small to fit in target type", "is too small"),
        (
            "expected u32",
            "expected a whole number from 0 to 4294967295",
        ),
        (
            "expected u64",
            "expected a whole number that is not negative",
        ),
        (
            "expected usize",
            "expected a whole number that is not negative",
        ),
        ("expected i64", "expected a whole number"),
        ("expected struct ", "expected an object: "),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("invalid type: sequence", "invalid type: array"),
        ("invalid type: map", "invalid type: object"),
    ]
    .into_iter()
    .fold(why.to_owned(), |why, (from, to)| why.replace(from, to))
}

/// serde names the unknown field and then the known ones, all in backticks.
fn unknown_field(why: &str) -> Option<(&str, Vec<&str>)> {
    let (_, rest) = why.split_once("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

fn suggestion(why: &str) -> Option<String> {
    let (unknown, known) = unknown_field(why)?;
    nearest(unknown, known).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[expect(dead_code)]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[expect(dead_code)]
        delay_ms: u64,
        #[expect(dead_code)]
        group: Option<String>,
    }

    fn detail(body: &str) -> String {
        format!("{:?}", parse::<Order>(body.as_bytes()).unwrap_err())
    }

    #[test]
    fn errors_name_the_position_and_a_suggestion() {
        let typo = detail(r#"{"items": [{"delay_ms": 1}, {"delay_sm": 1}]}"#);
        assert!(typo.contains("items[1]"), "{typo}");
        assert!(typo.contains("did you mean \\\"delay_ms\\\"?"), "{typo}");
        let stranger = parse::<Order>(br#"{"items": [], "colour": 1}"#).unwrap_err();
        assert_eq!(
            stranger.detail,
            r#"unknown field "colour"; known fields: items"#
        );
        let kind = detail(r#"{"items": [{"delay_ms": "soon"}]}"#);
        assert!(kind.contains("items[0].delay_ms"), "{kind}");
        assert!(detail(r#"{"items": []} extra"#).contains("trailing"));
        assert!(detail(r#"{"items": {}}"#).contains("object, expected an array"));
        let list = parse::<Order>(b" [[]]").unwrap_err();
        assert_eq!(list.detail, "the body must be an object, and is an array");
    }

    #[test]
    fn numbers_that_are_none_are_refused_in_words() {
        for (why, words) in [
            (
                "limit: invalid digit found in string",
                "limit: must be a whole number",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "from 0 to 4294967295",
            ),
            ("number too large to fit in target type", "is too large"),
        ] {
            assert!(in_words(why).contains(words), "{}", in_words(why));
        }
    }

    #[test]
    fn hostile_bodies_are_refused() {
        let deep = format!("{{\"items\": {}", "[".repeat(90_000));
        assert!(detail(&deep).contains("bad_json"));
        let broken = parse::<Order>(b"{\"items\": [\xff\xfe]}");
        assert!(broken.is_err());
    }
}
