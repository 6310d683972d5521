//! The suite over the reference store, and over its broken twins.

mod equivalence;
mod reference;
mod twins;
