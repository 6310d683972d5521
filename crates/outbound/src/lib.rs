//! What every call to another service over HTTP has in common.

mod address;
mod body;
mod causes;
mod client;
#[cfg(test)]
mod foreign;
mod guard;
mod header;
mod read;
mod retry_after;
mod send;
mod sign;

pub use self::{
    address::{UrlTemplate, http_url, shown_url},
    causes::causes,
    client::{CaFileError, build, client},
    guard::{Exceptions, Refusal},
    header::{bearer, sensitive},
    read::{BodyRead, ReadError, ReadLimit, read_body},
    retry_after::retry_after,
    send::{SendError, send},
    sign::Signer,
};
