#![doc = include_str!("../README.md")]

mod dashboard;
mod exposure;
mod extract;
mod gate;
mod holding;
mod mcp;
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

pub mod metrics;
pub mod redrive;

pub use exposure::{Exposed, check_exposure};
pub use mcp::{StdioError, serve_stdio};
pub use openapi::openapi_json;
pub use options::{RateLimit, ServerOptions, TokenEntry, listen_address};
pub use router::router;
pub use serve::{Peer, Server, StartError};
pub use session_key::SessionKey;
pub use starting::starting;
pub use state::{AppState, MemoryHere, PaymentsHere, WorkerView};
pub use token::{Scope, Token, TokenHash};
