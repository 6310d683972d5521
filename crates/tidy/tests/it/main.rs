//! Rules of the repository, checked over its files.
//!
//! A failure names the file, the line and what to do about it.

mod codes;
mod dependencies;
mod guarantees;
mod layout;
mod links;
mod memories;
mod repository;
mod requirements;
mod sets;
mod size;
mod sql;
mod structure;
mod words;
