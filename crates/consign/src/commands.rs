//! One file per command.

mod archived;
pub(crate) mod close;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod erase;
pub(crate) mod explain;
pub(crate) mod hold;
pub(crate) mod leases;
pub(crate) mod ls;
pub(crate) mod migrate;
pub(crate) mod pause;
pub(crate) mod queues;
pub(crate) mod redrive;
pub(crate) mod requeue;
pub(crate) mod resolve;
pub(crate) mod retention;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod token;
pub(crate) mod work;
