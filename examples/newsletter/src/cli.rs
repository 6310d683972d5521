//! The commands of the app.

use clap::{Args, Subcommand};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::Table,
};
use serde_json::json;

use crate::{Address, app::subscribers};

/// Most subscribers of a list.
const LIST_MAX: u32 = 1_000;

/// Subscribe addresses and list subscribers.
#[derive(Args, Debug)]
pub(crate) struct NewsletterCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Subscribe an address
    Subscribe {
        /// NAME@DOMAIN
        address: Address,
    },
    /// List subscribers by address, 1,000 at most
    Ls,
}

impl NewsletterCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let subscribers = subscribers(&context.open().await?);
        let found = match self.action {
            Action::Subscribe { address } => vec![subscribers.subscribe(&address).await?],
            Action::Ls => subscribers.subscribers(LIST_MAX).await?,
        };
        if context.out.is_json() {
            context.out.json(&json!({ "subscribers": found }))?;
            return Ok(Exit::Fine);
        }
        let mut table = Table::new(["address", "status", ">message"]);
        for subscriber in found {
            let id = subscriber.message_id.to_string();
            let status = subscriber.status.as_str().to_owned();
            table.row([subscriber.address.to_string(), status, id]);
        }
        context.out.table(&table)?;
        Ok(Exit::Fine)
    }
}
