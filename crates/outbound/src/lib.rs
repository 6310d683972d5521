//! What every call to somebody else over HTTP has in common.

mod body;
mod causes;
mod client;
mod retry_after;
mod secret;
mod sign;

pub use self::{
    body::{Begun, WatchedBody},
    causes::causes,
    client::{CaFileError, client},
    retry_after::retry_after,
    secret::Secret,
    sign::Signer,
};
