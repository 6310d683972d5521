//! The payment protocol over a real store, a real worker and a real HTTP server.

mod http_rail;
mod ingress;
mod relayer;
mod support;
