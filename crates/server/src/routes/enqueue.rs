//! Enqueueing over HTTP.

use std::collections::BTreeMap;

use axum::{
    Json as Answer,
    extract::{FromRequest, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
};
use consign_kernel::{CORRELATION_ID, NewMessage, QueueName, Receipt};
use serde_json::{Map, Value};

use crate::{
    extract::{InPath, check_type, is_type, parse_messages, whole},
    gate::GateState,
    metrics::ENQUEUED,
    problem::{Problem, codes},
    state::AppState,
    wire::enqueue::{
        BatchAnswer, BatchBody, EnqueuedBody, NewMessageBody, QueueMessageBody, into_messages,
    },
};

const NDJSON: &str = "application/x-ndjson";
/// The header that carries a message's key.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// A trace's context has a name of its own and a few words of its vendors.
const TRACE_BYTES_MAX: usize = 1_024;

/// Enqueue one message
///
/// Once answered with 202 or 200 the message is durable and can be read. A repeated key with the
/// same payload and group answers 200 with the first message.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/messages", operation_id = "enqueue", tag = "enqueue",
    params(
        ("queue" = String, Path, description = "The queue"),
        ("Idempotency-Key" = Option<String>, Header, description = "The message's key, quoted or bare"),
        ("traceparent" = Option<String>, Header, description = "Kept as a header of the message"),
        ("tracestate" = Option<String>, Header, description = "Kept as a header of the message"),
    ),
    request_body = NewMessageBody,
    responses(
        (status = 202, description = "Enqueued", body = EnqueuedBody),
        (status = 200, description = "The key existed", body = EnqueuedBody),
    ),
)]
pub(crate) async fn one(
    State(state): State<AppState>,
    axum::Extension(shared): axum::Extension<std::sync::Arc<GateState>>,
    InPath(queue): InPath<QueueName>,
    One { headers, mut body }: One,
) -> Result<impl IntoResponse, Problem> {
    if let Some(key) = idempotency_key(&headers)? {
        if body.key.as_ref().is_some_and(|own| *own != key) {
            let detail = "the Idempotency-Key header and `key` differ; give one of them";
            return Err(Problem::new(codes::KEY_MISMATCH, detail));
        }
        body.key = Some(key);
    }
    let mut message = body.into_message(queue, shared.options.body_max_bytes)?;
    continue_trace(&headers, &mut message.headers);
    let enqueued = enqueue(&state, &[message]).await?;
    let first = *enqueued
        .first()
        .expect("invariant: one message, one answer");
    let location = format!("/v1/messages/{}", first.id);
    Ok((
        status(&enqueued),
        [(header::LOCATION, location)],
        Answer(EnqueuedBody::from(first)),
    ))
}

/// Enqueue a batch: all or none
///
/// The messages may be of several queues. Also takes `application/x-ndjson`, one message a line.
/// With an `Idempotency-Key`, messages without a key of their own get `<key>/<index>`.
#[utoipa::path(
    post, path = "/v1/messages", operation_id = "enqueue_batch", tag = "enqueue",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Makes keys for messages without one"),
        ("traceparent" = Option<String>, Header, description = "Kept as a header of each message"),
        ("tracestate" = Option<String>, Header, description = "Kept as a header of each message"),
    ),
    request_body(content(
        (BatchBody = "application/json"),
        (QueueMessageBody = "application/x-ndjson"),
    )),
    responses(
        (status = 202, description = "Enqueued", body = BatchAnswer),
        (status = 200, description = "Every key existed", body = BatchAnswer),
    ),
)]
pub(crate) async fn batch(
    State(state): State<AppState>,
    axum::Extension(shared): axum::Extension<std::sync::Arc<GateState>>,
    Batch { headers, messages }: Batch,
) -> Result<impl IntoResponse, Problem> {
    let batch_max = shared.options.batch_max;
    if messages.len() > batch_max {
        let detail = format!("{} messages; a batch holds {batch_max}", messages.len());
        return Err(Problem::new(codes::BATCH_TOO_LARGE, detail).with("batch_max", batch_max));
    }
    if messages.is_empty() {
        return Err(Problem::invalid(
            "messages",
            "a batch holds at least one message",
        ));
    }
    let key = idempotency_key(&headers)?;
    let mut messages = into_messages(messages, shared.options.body_max_bytes)?;
    for (index, message) in messages.iter_mut().enumerate() {
        if let (Some(key), None) = (&key, &message.key) {
            message.key = Some(format!("{key}/{index}"));
        }
        continue_trace(&headers, &mut message.headers);
    }
    let enqueued = enqueue(&state, &messages).await?;
    let messages = enqueued.iter().copied().map(EnqueuedBody::from).collect();
    Ok((status(&enqueued), Answer(BatchAnswer { messages })))
}

/// The one message of a request.
pub(crate) struct One {
    headers: HeaderMap,
    body: NewMessageBody,
}

impl<S: Send + Sync> FromRequest<S> for One {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (headers, bytes) = whole(request).await?;
        check_type(&headers, "application/json")?;
        let body = parse_messages(&bytes)?;
        Ok(Self { headers, body })
    }
}

/// The messages of a batch in either notation.
pub(crate) struct Batch {
    headers: HeaderMap,
    messages: Vec<QueueMessageBody>,
}

impl<S: Send + Sync> FromRequest<S> for Batch {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (headers, bytes) = whole(request).await?;
        let messages = if is_type(&headers, NDJSON) {
            let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
            lines
                .filter(|(_, line)| !line.trim_ascii().is_empty())
                .map(|(number, line)| {
                    parse_messages(line).map_err(|problem| problem.with("line", number))
                })
                .collect::<Result<_, _>>()?
        } else {
            check_type(&headers, "application/json")?;
            parse_messages::<BatchBody>(&bytes)?.messages
        };
        Ok(Self { headers, messages })
    }
}

async fn enqueue(state: &AppState, messages: &[NewMessage]) -> Result<Vec<Receipt>, Problem> {
    for extension in state.extensions.iter() {
        messages
            .iter()
            .try_for_each(|it| extension.check_enqueue(it))?;
    }
    let enqueued = state.store.enqueue(messages).await?;
    let mut new: BTreeMap<&QueueName, u64> = BTreeMap::new();
    for (message, answer) in messages.iter().zip(&enqueued) {
        *new.entry(&message.queue).or_default() += u64::from(!answer.duplicate);
    }
    for (queue, count) in new {
        metrics::counter!(ENQUEUED, "queue" => state.tally.label(queue)).increment(count);
    }
    Ok(enqueued)
}

/// 202 where something was written, 200 where every key existed.
fn status(enqueued: &[Receipt]) -> StatusCode {
    if enqueued.iter().all(|one| one.duplicate) {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    }
}

/// The key of the header: a quoted string as in the draft standard, or bare.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    let wrong = |why: &str| Err(Problem::invalid("Idempotency-Key", why));
    if given.next().is_some() {
        return wrong("was given more than once");
    }
    let Ok(text) = value.to_str() else {
        return wrong("must be printable ASCII");
    };
    let key = match text.trim().strip_prefix('"') {
        None => Some(text.trim().to_owned()),
        Some(quoted) => unquoted(quoted),
    };
    match key {
        Some(key) if !key.is_empty() => Ok(Some(key)),
        Some(_) => wrong("is empty"),
        None => wrong("is not a well-formed quoted string"),
    }
}

/// The text between the quotes; `quoted` begins after the first.
pub fn unquoted(quoted: &str) -> Option<String> {
    let mut key = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => break,
            '\\' => match characters.next()? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return None,
            },
            plain => key.push(plain),
        }
    }
    characters.as_str().is_empty().then_some(key)
}

/// Copies the request's trace context and correlation id into a message that has none of its own.
pub fn continue_trace(request: &HeaderMap, message: &mut Map<String, Value>) {
    let has = |message: &Map<String, Value>, name: &str| {
        message.keys().any(|own| own.eq_ignore_ascii_case(name))
    };
    let given = |name: &str| {
        let value = request.get(name)?.to_str().ok()?;
        (value.len() <= TRACE_BYTES_MAX).then(|| value.to_owned())
    };
    if let Some(id) = given("x-correlation-id").filter(|id| !id.is_empty())
        && !has(message, CORRELATION_ID)
    {
        message.insert(CORRELATION_ID.into(), id.into());
    }
    if has(message, "traceparent") {
        return;
    }
    let Some(parent) = given("traceparent") else {
        return;
    };
    message.insert("traceparent".into(), parent.into());
    if let Some(state) = given("tracestate") {
        message.insert("tracestate".into(), state.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> Result<Option<String>, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, text.parse().unwrap());
        idempotency_key(&headers)
    }

    #[test]
    fn keys_may_be_quoted_or_bare() {
        for (text, expected) in [
            ("abc", "abc"),
            ("\"abc\"", "abc"),
            (" order 7 ", "order 7"),
            (r#""a\"b\\c""#, r#"a"b\c"#),
        ] {
            assert_eq!(key(text).unwrap().unwrap(), expected, "{text}");
        }
        for text in ["", "\"\"", "\"abc", "\"abc\"x", r#""a\n""#] {
            assert!(key(text).is_err(), "{text}");
        }
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn a_message_keeps_a_trace_of_its_own_whole() {
        let mut request = HeaderMap::new();
        request.insert("traceparent", "00-a-b-01".parse().unwrap());
        request.insert("tracestate", "v=1".parse().unwrap());
        let mut none = Map::new();
        continue_trace(&request, &mut none);
        assert_eq!(none["traceparent"], "00-a-b-01");
        assert_eq!(none["tracestate"], "v=1");
        let mut own = Map::new();
        own.insert("Traceparent".into(), "00-c-d-01".into());
        continue_trace(&request, &mut own);
        assert_eq!(own.len(), 1, "not a state that belongs to another parent");
        request.insert("x-correlation-id", "case 7".parse().unwrap());
        continue_trace(&request, &mut own);
        assert_eq!(own["correlation_id"], "case 7");
        own.insert("correlation_id".into(), "case 8".into());
        continue_trace(&request, &mut own);
        assert_eq!(own["correlation_id"], "case 8", "its own");
    }
}
