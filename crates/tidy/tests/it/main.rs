//! House rules, checked over the files of the repository.
//!
//! A failure names the file, the line and what to do about it.

mod codes;
mod dependencies;
mod guarantees;
mod layout;
mod links;
mod memories;
mod repository;
mod size;
mod sql;
mod words;
