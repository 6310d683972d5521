//! `consign serve`: the API and the worker, in one process.

use std::net::SocketAddr;

use clap::Args;
use consign_server::listen_address;

use crate::{
    config::{Flags, Settings},
    context::Context,
    failure::{Exit, Failure},
    service::{Role, Service},
};

/// Serve the HTTP API and deliver the messages of every queue that has a sink.
///
/// Without a configuration it uses SQLite with a queue for trying things out. SIGTERM or SIGINT:
/// drain and exit; a second one: exit at once. SIGHUP: reload the queues' policies
/// from the configuration.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen [default: the configuration's server.listen]
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// Migrate the database to this program's schema first
    #[arg(long)]
    migrate: bool,
    /// Do not deliver: `consign work` does that in another process
    #[arg(long)]
    no_work: bool,
    /// Do not change the policies of existing queues
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
        let settings = Settings::of(&config)?;
        let service = Service {
            migrate: self.migrate || settings.database.migrate_on_start,
            config,
            settings,
            sources,
            role: Role::Serve,
            delivers: !self.no_work,
            out: context.out,
        };
        service.run().await
    }
}
