#![doc = include_str!("../README.md")]

mod message;
mod secret;
mod uri;

pub use self::{
    message::{json, text},
    secret::Secret,
    uri::{
        MASK, mask_credentials, mask_credentials_in, mask_credentials_in_fields, masked_json,
        may_hold_credentials, names_secret,
    },
};
