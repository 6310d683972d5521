//! One file per command.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod explain;
pub(crate) mod hold;
pub(crate) mod lanes;
pub(crate) mod leases;
pub(crate) mod ls;
pub(crate) mod memory;
pub(crate) mod migrate;
pub(crate) mod orders;
pub(crate) mod pause;
pub(crate) mod payments;
pub(crate) mod reconcile;
pub(crate) mod redrive;
pub(crate) mod report;
pub(crate) mod requeue;
pub(crate) mod resolve;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod token;
pub(crate) mod work;
