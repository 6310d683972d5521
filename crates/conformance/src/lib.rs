#![doc = include_str!("../README.md")]

mod harness;

pub use harness::{Factory, Harness};
