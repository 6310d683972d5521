//! The real binary, as people and scripts run it.

#![expect(clippy::unwrap_used, reason = "a broken test bench is a failed test")]

mod alerts;
mod api;
mod bash;
mod browser;
mod config;
mod database;
mod demo;
mod deploy;
mod drain;
mod enqueue;
mod erase;
mod find;
mod help;
mod hot;
mod http;
mod leaving_kills;
mod limits;
mod many_queues;
mod memory;
mod mistakes;
mod operate;
mod order_surface;
mod orders;
#[cfg(feature = "otlp")]
mod otlp;
mod outage;
mod payments;
mod pooler;
mod postgres;
mod progress;
mod promtool;
mod queues;
mod read;
mod receiver;
mod redrive;
mod requeue;
mod retention;
mod retention_disk;
mod retention_kills;
mod retention_processes;
mod rights;
mod roles;
mod scenario;
mod schedules;
mod scm;
mod serve;
mod service;
mod signals;
mod suggestions;
mod support;
mod systemd;
mod terminal;
mod tour;
mod work;
