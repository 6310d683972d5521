//! A server in the test's own process, for the tests of this crate and of apps. Every answer is checked
//! against the OpenAPI document.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    reason = "for tests: a test that cannot go on panics"
)]

mod bench;
mod browser;
mod contract;
mod http;

pub use bench::{Answer, Bench, LOCAL, clock, name, peer, request, set};
pub use browser::{
    AUDITOR, Browser, DashboardFixture, OPERATOR, PRODUCER, PageAnswer, tokens, unescaped,
    urlencoded,
};
pub use contract::routes;
pub use http::{TestServer, answer, post, rest, send};
