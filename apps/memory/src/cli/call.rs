//! `consign memory store`, `query` and `call`: calls the gateway's tools without a server.

use clap::Args;
use consign_app::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
};
use serde_json::json;

use crate::{
    Caller,
    app::MemoryAppService,
    tools::{self, ToolArguments},
};

/// Store a memory, as the tool memory_store does.
#[derive(Args, Debug)]
pub(super) struct Store {
    /// The text
    #[arg(value_name = "TEXT")]
    payload_md: String,
    /// Its space: team:NAME, private:USER, org:shared [default: the project's team]
    #[arg(long, value_name = "SPACE")]
    space: Option<String>,
    /// FACT, PROCEDURE, PITFALL, DECISION, REVIEW_GUIDE
    #[arg(long)]
    kind: Option<String>,
    /// The actor
    #[arg(long, value_name = "USER")]
    actor: Option<String>,
    /// Evidence as URI; may be repeated
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
    /// The query
    #[arg(value_name = "WORDS")]
    query: String,
    /// Spaces to search; may be repeated [default: the project's team and the actor's private space]
    #[arg(long = "space", value_name = "SPACE")]
    spaces: Vec<String>,
    /// The actor
    #[arg(long, value_name = "USER")]
    actor: Option<String>,
    /// Maximum results
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

/// Call any tool of the gateway; exit code 1 if the call failed.
#[derive(Args, Debug)]
pub(super) struct Call {
    /// Tool name, such as memory_query
    tool: String,
    /// Arguments of the tool: a JSON object
    #[arg(default_value = "{}", value_parser = object)]
    arguments: ToolArguments,
}

impl Call {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        call(context, &self.tool, self.arguments).await
    }
}

fn object(text: &str) -> Result<ToolArguments, String> {
    match ToolArguments::parse(text) {
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
    arguments: impl Into<ToolArguments>,
) -> Result<Exit, Failure> {
    let config = context.config(Flags::new())?;
    let memory = MemoryAppService::prepare(&config)?;
    let service = memory.gateway(&context.creating().open_with(&config).await?);
    // Access to the database implies all rights.
    let caller = Caller {
        is_admin: true,
        ..Caller::default()
    };
    let answer = tools::call(&service, tool, arguments, &caller).await;
    context.out.json(&answer.body)?;
    Ok(if answer.ok { Exit::Fine } else { Exit::Wrong })
}
