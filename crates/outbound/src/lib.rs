//! What every call to somebody else over HTTP has in common.

mod body;
mod causes;
mod client;
#[cfg(test)]
mod foreign;
mod guard;
mod retry_after;
mod secret;
mod sign;

pub use self::{
    body::{Begun, WatchedBody},
    causes::causes,
    client::{CaFileError, client},
    guard::{Allowed, Refusal},
    retry_after::retry_after,
    secret::Secret,
    sign::Signer,
};
