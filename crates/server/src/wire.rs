//! The JSON of requests and answers.
//!
//! Types of the kernel are serialised as they are; `shapes` describes them for the OpenAPI
//! document, and the tests check every answer against it.

pub(crate) mod enqueue;
pub(crate) mod erase;
pub(crate) mod health;
pub(crate) mod leases;
pub(crate) mod messages;
pub(crate) mod operate;
pub(crate) mod problems;
pub(crate) mod queues;
pub(crate) mod redrives;
pub(crate) mod schedules;
pub(crate) mod shapes;
pub(crate) mod worker;
