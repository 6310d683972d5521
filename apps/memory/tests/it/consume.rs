//! The history of repositories becomes memories.

mod bench;
mod order;
mod policy;
mod trouble;
