//! `consign memory users`: users of the memory gateway.

use clap::{Args, Subcommand};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
};
use serde_json::json;

use crate::{NewUser, app::logbook};

/// Add users of the memory gateway.
#[derive(Args, Debug)]
pub(super) struct Users {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Add a user, unless it exists
    Add(Add),
}

/// Add a user: requests with this actor_user_id belong to it.
#[derive(Args, Debug)]
struct Add {
    /// The actor_user_id of its requests
    #[arg(value_name = "USER", value_parser = name)]
    user_id: String,
    /// Display name [default: the same]
    #[arg(long, value_name = "NAME")]
    display_name: Option<String>,
}

/// The limit of `memory_store`.
const NAME_BYTES_MAX: usize = 200;

fn name(text: &str) -> Result<String, String> {
    let is_plain = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if is_plain && text.len() <= NAME_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(format!("must be one line of 1 to {NAME_BYTES_MAX} bytes"))
    }
}

impl Users {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Action::Add(add) = self.action;
        add.run(context).await
    }
}

impl Add {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let logbook = logbook(&context.creating().open().await?);
        let is_known = logbook.user_exists(&self.user_id).await?;
        let user = NewUser {
            display_name: self.display_name.unwrap_or_else(|| self.user_id.clone()),
            user_id: self.user_id,
        };
        logbook.create_user(&user).await?;
        // An inactive user stays inactive: adding it again does not override that decision.
        let is_active = logbook.user_exists(&user.user_id).await?;
        if context.out.is_json() {
            let made = json!({
                "user_id": user.user_id, "is_new": !is_known && is_active, "is_active": is_active,
            });
            context.out.json(&made)?;
        } else {
            let change = match (is_known, is_active) {
                (true, _) => "exists already",
                (false, true) => "was added",
                (false, false) => "exists and stays inactive",
            };
            context
                .out
                .line(format_args!("{} {change}", user.user_id))?;
        }
        Ok(Exit::Fine)
    }
}
