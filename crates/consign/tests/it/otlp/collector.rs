//! A collector: takes OTLP over HTTP in its binary form and keeps the spans.
//!
//! It reads just enough of the format: a message is a row of fields, each a number, its wire type
//! and a value. Numbers of fields are those of the OTLP specification.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use tokio::{net::TcpListener, task::JoinHandle};

/// The fields of a span; ids in hexadecimal.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    /// Trace and span.
    pub(crate) links: Vec<(String, String)>,
    start: u64,
}

#[derive(Debug)]
pub(crate) struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Bytes>>>,
    task: JoinHandle<()>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Bytes>>>::default();
        let router = Router::new()
            .route("/v1/traces", post(take))
            .with_state(Arc::clone(&received));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            received,
            task,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every span so far, by its start.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for request in self.received.lock().unwrap().iter() {
            for resource in within(request, 1) {
                for scope in within(resource, 2) {
                    spans.extend(within(scope, 2).into_iter().map(span));
                }
            }
        }
        spans.sort_by_key(|span: &Span| span.start);
        spans
    }

    /// Everything that was received, as far as it is text.
    pub(crate) fn text(&self) -> String {
        let received = self.received.lock().unwrap();
        let texts = received.iter().map(|bytes| String::from_utf8_lossy(bytes));
        texts.collect()
    }

    /// What the resources say, as text.
    pub(crate) fn resources(&self) -> String {
        let received = self.received.lock().unwrap();
        let resources = received.iter().flat_map(|request| within(request, 1));
        let resources = resources.flat_map(|resource| within(resource, 1));
        resources
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(received): State<Arc<Mutex<Vec<Bytes>>>>, body: Bytes) -> StatusCode {
    received.lock().unwrap().push(body);
    StatusCode::OK
}

fn span(bytes: &[u8]) -> Span {
    let text = |number| {
        let found = within(bytes, number).first().copied().unwrap_or_default();
        String::from_utf8_lossy(found).into_owned()
    };
    let start = fields(bytes).into_iter().find_map(|field| match field {
        (7, Value::Number(start)) => Some(start),
        _ => None,
    });
    Span {
        trace: hex(bytes, 1),
        id: hex(bytes, 2),
        parent: hex(bytes, 4),
        name: text(5),
        links: within(bytes, 13)
            .into_iter()
            .map(|link| (hex(link, 1), hex(link, 2)))
            .collect(),
        start: start.unwrap_or_default(),
    }
}

fn hex(bytes: &[u8], number: u64) -> String {
    let found = within(bytes, number).first().copied().unwrap_or_default();
    found.iter().map(|byte| format!("{byte:02x}")).collect()
}

enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// The values of one field that are bytes: texts, ids and messages.
fn within(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let wanted = |field| match field {
        (found, Value::Bytes(value)) if found == number => Some(value),
        _ => None,
    };
    fields(bytes).into_iter().filter_map(wanted).collect()
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            5 => {
                let (number, rest) = bytes.split_at(4);
                bytes = rest;
                Value::Number(u32::from_le_bytes(number.try_into().unwrap()).into())
            }
            other => panic!("no such wire type: {other}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
