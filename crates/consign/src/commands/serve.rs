//! `consign serve`: the API and the worker, in one process.

use std::net::SocketAddr;

use clap::Args;
use consign_server::listen_address;

use crate::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
    service::{Role, Service},
};

/// Serve the HTTP API and deliver the messages of every queue that has a sink.
///
/// Without a configuration it starts on SQLite with a queue to try things with. SIGTERM or SIGINT:
/// finish what is under way and end; a second one: end at once. SIGHUP: read the queues' policies
/// again.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen [default: the configuration's server.listen]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Bring the database to this program's schema first
    #[arg(long)]
    migrate: bool,
    /// Deliver nothing, where `consign work` does that elsewhere
    #[arg(long)]
    no_work: bool,
    /// Leave the policies of queues that are there as they are
    #[arg(long, hide = true)]
    keep_policies: bool,
}

impl Serve {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let listen = self.listen.map(|listen| listen.to_string());
        let flags: Flags = listen
            .map(|listen| ("server.listen", listen.into(), "--listen"))
            .into_iter()
            .collect();
        let mut sources = context.sources().clone();
        sources.flags.extend(flags.clone());
        let mut config = context.config(flags)?;
        if self.keep_policies {
            config.keep_policies();
        }
        let service = Service {
            migrate: self.migrate || config.settings.database.migrate_on_start,
            config,
            sources,
            role: Role::Serve,
            delivers: !self.no_work,
            out: context.out,
        };
        service.run().await
    }
}
