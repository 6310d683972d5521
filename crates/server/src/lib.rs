#![doc = include_str!("../README.md")]

mod exposure;
mod options;
mod router;
mod serve;
mod state;
mod token;

pub mod metrics;
pub mod redrive;

pub use exposure::{Exposed, check_exposure};
pub use options::{RateLimit, ServerOptions, TokenEntry};
pub use router::router;
pub use serve::{Peer, Server, StartError};
pub use state::{AppState, WorkerView};
pub use token::{Scope, Token, TokenHash};
