//! `consign memory users`: who may store memories under a name of their own.

use clap::{Args, Subcommand};
use consign_memory::NewUser;
use serde_json::json;

use crate::{
    context::Context,
    failure::{Exit, Failure},
};

/// Make users of the memory gateway.
#[derive(Args, Debug)]
pub(super) struct Users {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a user, unless there is one of this name
    Add(Add),
}

/// Make a user: requests with this actor_user_id are theirs from then on.
#[derive(Args, Debug)]
struct Add {
    /// The name that requests give as actor_user_id
    #[arg(value_name = "USER", value_parser = name)]
    user_id: String,
    /// What people call them [default: the same]
    #[arg(long, value_name = "NAME")]
    display_name: Option<String>,
}

/// As `memory_store` takes names.
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
        let logbook = context.open().await?.memory;
        let is_known = logbook.user_exists(&self.user_id).await?;
        let user = NewUser {
            display_name: self.display_name.unwrap_or_else(|| self.user_id.clone()),
            user_id: self.user_id,
        };
        logbook.create_user(&user).await?;
        // A user that was made inactive stays so: making one does not change another's decision.
        let is_active = logbook.user_exists(&user.user_id).await?;
        if context.out.is_json() {
            let made = json!({
                "user_id": user.user_id, "is_new": !is_known && is_active, "is_active": is_active,
            });
            context.out.json(&made)?;
        } else {
            let told = match (is_known, is_active) {
                (true, _) => "is a user already",
                (false, true) => "is a user now",
                (false, false) => "is a user that was made inactive, and stays so",
            };
            context.out.line(format_args!("{} {told}", user.user_id))?;
        }
        Ok(Exit::Fine)
    }
}
