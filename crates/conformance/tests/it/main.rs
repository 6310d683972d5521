//! The suite over the reference store, and over its broken twins.

mod equivalence;
mod model;
mod reference;
mod twins;
