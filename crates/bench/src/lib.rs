#![doc = include_str!("../README.md")]

mod backend;
mod beside;
mod control;
mod drain;
mod environment;
mod http;
mod openmemory;
mod options;
mod pgbouncer;
mod process;
mod progress;
mod receiver;
mod report;
mod run;
mod scenarios;
mod scratch;
mod subject;
mod usage;

pub use environment::{Environment, Postgres};
pub use options::{Options, Scale, Scenario};
pub use report::{Against, Bound, Figure, Measure, Report, ScenarioReport, Target, Unit};
pub use run::{run, run_beside};
