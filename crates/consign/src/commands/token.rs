//! `consign token`: secrets for callers of the HTTP API.

use clap::{Args, Subcommand};
use consign_server::{Scope, Token};
use serde_json::json;

use crate::{
    context::Context,
    failure::{Exit, Failure},
};

/// Create tokens for callers of the HTTP API.
#[derive(Args, Debug)]
pub(crate) struct TokenCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a token, print it once, and print the lines to add to the configuration
    New {
        /// The token's name; the audit log records it as the actor
        #[arg(long, value_parser = name)]
        name: String,
        /// producer, worker, operator or auditor; may be repeated
        #[arg(long = "scope", value_name = "SCOPE", required = true)]
        scopes: Vec<Scope>,
    },
}

/// The name is a table in the configuration and an actor in the audit.
fn name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !text.is_empty() && text.len() <= 63 && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("a name is 1 to 63 letters, digits, - and _".into())
    }
}

impl TokenCommand {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Action::New { name, mut scopes } = self.action;
        scopes.sort();
        scopes.dedup();
        let token = Token::generate();
        let hash = token.hash().to_string();
        let out = context.out;
        if out.is_json() {
            out.json(&json!({
                "name": name, "token": token.reveal(), "hash": hash, "scopes": scopes,
            }))?;
            return Ok(Exit::Fine);
        }
        let quoted: Vec<String> = scopes.iter().map(|scope| format!("\"{scope}\"")).collect();
        out.note("The token, shown this once:")?;
        out.line(token.reveal())?;
        out.note(format_args!(
            "\nFor consign.toml; restart `consign serve` afterwards:\n\n[server.tokens.{name}]\n\
             hash = \"{hash}\"\nscopes = [{}]",
            quoted.join(", ")
        ))?;
        Ok(Exit::Fine)
    }
}
