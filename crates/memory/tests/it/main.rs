//! The gateway and its backends, over a real store and a real memory server.

mod openmemory;
