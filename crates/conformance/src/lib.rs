#![doc = include_str!("../README.md")]

mod cases;
mod harness;
mod reference;
mod runner;
mod stage;

pub use harness::{Factory, Harness};
pub use reference::ReferenceFactory;
pub use runner::{Case, cases, exercise, run};
