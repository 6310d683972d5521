#![doc = include_str!("../README.md")]

mod cases;
mod equivalence;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub mod fixture;
mod harness;
pub mod model;
mod reference;
mod runner;
#[doc(hidden)]
pub mod stage;
mod walk;

pub use equivalence::{Difference, EQUIVALENCE_CASES, EQUIVALENCE_OPS, difference, equivalence};
pub use harness::{Factory, Harness};
pub use reference::ReferenceFactory;
pub use runner::{Case, cases, exercise, run};
pub use walk::long_walks_are_cut_and_lose_nothing;
