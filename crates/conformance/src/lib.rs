#![doc = include_str!("../README.md")]

mod cases;
mod equivalence;
mod harness;
mod memory;
pub mod model;
mod reference;
mod runner;
#[doc(hidden)]
pub mod stage;
mod walk;

pub use equivalence::{Difference, EQUIVALENCE_CASES, EQUIVALENCE_OPS, difference, equivalence};
pub use harness::{Factory, Harness};
pub use reference::ReferenceFactory;
pub use runner::{Case, cases, exercise, memory_cases, run};
pub use walk::long_walks_are_cut_and_lose_nothing;
