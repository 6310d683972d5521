#![doc = include_str!("../README.md")]

mod key;
mod receipt;
mod verify;

pub use self::{
    key::KeyError,
    receipt::{CREATE_TABLE, RECORD, Receipt},
    verify::{Rejection, TOLERANCE_SECONDS, Verifier, Webhook},
};
