//! `consign memory store`, `query` and `call`: the tools of the gateway, without a server between.

use clap::Args;
use consign_memory::{
    Caller,
    tools::{self, GivenArguments},
};
use serde_json::json;

use crate::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
    service::Memory,
};

/// Store a memory, as the tool memory_store does.
#[derive(Args, Debug)]
pub(super) struct Store {
    /// The text
    #[arg(value_name = "TEXT")]
    payload_md: String,
    /// Where it belongs: team:NAME, private:USER, org:shared [default: the project's team]
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// FACT, PROCEDURE, PITFALL, DECISION, REVIEW_GUIDE
    #[arg(long)]
    kind: Option<String>,
    /// Who stores it
    #[arg(long, value_name = "USER")]
    actor: Option<String>,
    /// Where it comes from; may be repeated
    #[arg(long = "evidence", value_name = "URI")]
    evidence_refs: Vec<String>,
}

impl Store {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut arguments = json!({"payload_md": self.payload_md});
        let given = [
            ("target_space", self.space),
            ("kind", self.kind),
            ("actor_user_id", self.actor),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                arguments[name] = value.into();
            }
        }
        if !self.evidence_refs.is_empty() {
            arguments["evidence_refs"] = self.evidence_refs.into();
        }
        call(context, "memory_store", arguments).await
    }
}

/// Search memories, as the tool memory_query does.
#[derive(Args, Debug)]
pub(super) struct Query {
    /// The words
    #[arg(value_name = "WORDS")]
    query: String,
    /// Where to look; may be repeated [default: the project's team and the actor's own]
    #[arg(long = "space", value_name = "SPACE")]
    spaces: Vec<String>,
    /// Who searches
    #[arg(long, value_name = "USER")]
    actor: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100), allow_negative_numbers = true)]
    top_k: u32,
}

impl Query {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut arguments = json!({"query": self.query, "top_k": self.top_k});
        if !self.spaces.is_empty() {
            arguments["spaces"] = self.spaces.into();
        }
        if let Some(actor) = self.actor {
            arguments["actor_user_id"] = actor.into();
        }
        call(context, "memory_query", arguments).await
    }
}

/// Call any tool of the gateway; exit code 1 if it did not do what it was asked.
#[derive(Args, Debug)]
pub(super) struct Call {
    /// Its name
    tool: String,
    /// Its arguments: a JSON object
    #[arg(default_value = "{}", value_parser = object)]
    arguments: GivenArguments,
}

impl Call {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        call(context, &self.tool, self.arguments).await
    }
}

fn object(text: &str) -> Result<GivenArguments, String> {
    match GivenArguments::parse(text) {
        Ok(arguments) if arguments.value.is_object() => Ok(arguments),
        Ok(_) => Err("must be a JSON object".to_owned()),
        Err(error) => Err(format!(
            "is not JSON: {error}; arguments are an object, such as '{{\"query\": \"x\"}}'"
        )),
    }
}

async fn call(
    context: &Context,
    tool: &str,
    arguments: impl Into<GivenArguments>,
) -> Result<Exit, Failure> {
    let config = context.config(Flags::new())?;
    let Some(memory) = Memory::prepare(&config)? else {
        return Err(Failure::usage("memory.enabled is false"));
    };
    let opened = context.open().await?;
    let service = memory.service(&opened);
    // Whoever can open the database needs no token.
    let caller = Caller {
        is_admin: true,
        ..Caller::default()
    };
    let answer = tools::call(&service, tool, arguments, &caller).await;
    context.out.json(&answer.body)?;
    Ok(match answer.ok {
        true => Exit::Fine,
        false => Exit::Wrong,
    })
}
