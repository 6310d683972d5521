#![doc = include_str!("../README.md")]

mod dashboard;
mod exposure;
mod extension;
mod extract;
mod gate;
mod holding;
mod openapi;
mod options;
mod prefer;
mod problem;
mod router;
mod routes;
mod serve;
mod session_key;
mod starting;
mod state;
mod tally;
mod token;
mod wire;

pub mod apps;
pub mod metrics;
pub mod redrive;
#[cfg(feature = "test-support")]
pub mod testing;

pub use exposure::{ExposureError, check_exposure};
pub use extension::Extension;
pub use openapi::openapi_json;
pub use options::{PayloadAccess, RateLimit, ServerOptions, TokenEntry, listen_address};
pub use router::router;
pub use serve::{Peer, Server, StartError};
pub use session_key::SessionKey;
pub use starting::starting;
pub use state::{AppState, WorkerView};
pub use token::{Scope, Token, TokenHash};
