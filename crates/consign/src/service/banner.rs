//! What is printed when all is up: where things are, and what to try.

use std::path::Path;

use consign_worker::WorkerHandle;
use serde_json::{Value, json};

use super::{NamedService, Role};
use crate::{
    config::Settings,
    database::Address,
    failure::Failure,
    output::{Output, plain},
};

/// A queue is tried with a message of its own.
const PAYLOAD: &str = r#"{"payload": {"text": "hello"}}"#;

/// What there is to say.
pub(super) struct Banner<'a> {
    pub(super) out: Output,
    /// The file that settings were read from.
    pub(super) file: Option<&'a Path>,
    pub(super) settings: &'a Settings,
    pub(super) address: &'a Address,
    pub(super) url: Option<&'a str>,
    pub(super) apps: &'a [NamedService],
    pub(super) role: &'a Role,
}

impl Banner<'_> {
    pub(super) fn print(&self, worker: &WorkerHandle) -> Result<(), Failure> {
        print(self, worker)
    }
}

fn print(banner: &Banner<'_>, worker: &WorkerHandle) -> Result<(), Failure> {
    let &Banner {
        out,
        file,
        settings,
        address,
        url,
        apps,
        role,
    } = banner;
    let status = worker.status();
    let version = env!("CARGO_PKG_VERSION");
    if out.is_json() {
        let queues: Vec<Value> = status
            .queues
            .iter()
            .map(|queue| {
                json!({"queue": queue.queue, "sink": queue.sink, "destination": queue.destination})
            })
            .collect();
        let mut document = json!({
            "version": version, "database": address.to_string(), "url": url,
            "owner": status.owner, "queues": queues,
        });
        for (name, app) in apps {
            document[*name] = app.banner().json;
        }
        return Ok(out.json(&document)?);
    }
    out.line(format_args!("consign {version}"))?;
    if let (Some(url), Role::Serve, true) = (url, role, is_open(settings)) {
        out.line(format_args!("dashboard  {url}/"))?;
    }
    if let Some(file) = file {
        out.line(format_args!("settings   {}", file.display()))?;
    }
    out.line(format_args!("database   {address}"))?;
    if let Some(url) = url {
        out.line(format_args!("listening  {url}"))?;
    }
    let mut label = "queues";
    for queue in &status.queues {
        let sink = format!("{} {}", queue.sink, queue.destination);
        out.line(format_args!(
            "{label:<11}{} -> {}",
            queue.queue,
            plain(sink.trim_end())
        ))?;
        label = "";
    }
    for queue in settings.queues.iter().filter(|queue| queue.sink.is_none()) {
        out.line(format_args!(
            "{label:<11}{} has no sink: other programs claim from it",
            queue.name
        ))?;
        label = "";
    }
    let Role::Serve = role else {
        return Ok(());
    };
    for (name, app) in apps {
        if let Some(sentence) = app.banner().sentence {
            out.line(format_args!("{name:<11}{sentence}"))?;
        }
    }
    match url {
        Some(url) => tries(out, settings, url, apps),
        None => Ok(()),
    }
}

/// Whether a caller can reach the API and the dashboard: from this machine, or with a token.
fn is_open(settings: &Settings) -> bool {
    let server = &settings.server;
    !server.needs_token() || !server.tokens.is_empty()
}

/// Commands that work when pasted. A test runs exactly these.
fn tries(
    out: Output,
    settings: &Settings,
    url: &str,
    apps: &[NamedService],
) -> Result<(), Failure> {
    let queues = &settings.queues;
    let queue = queues
        .iter()
        .find(|queue| queue.sink.is_some())
        .or(queues.first());
    let queue = queue.map_or("default", |queue| queue.name.as_str());
    let server = &settings.server;
    let curl = if server.tokens.is_empty() {
        r"curl -sSw '\n'".to_owned()
    } else {
        r#"curl -sSw '\n' -H "authorization: Bearer $CONSIGN_TOKEN""#.to_owned()
    };
    let json = "-H 'content-type: application/json'";
    let is_open = is_open(settings);
    if !is_open {
        out.line(
            "closed     /v1, /do and the dashboard: agents have tokens, server.tokens has none \
             (`consign token new` makes one)",
        )?;
    }
    out.line("\nTry it:")?;
    if is_open {
        out.line(format_args!(
            "  {curl} {url}/v1/queues/{queue}/messages {json} -d '{PAYLOAD}'"
        ))?;
        out.line(format_args!(
            "  {curl} '{url}/v1/messages?queue={queue}&limit=3'"
        ))?;
        out.line(format_args!("  {curl} {url}/v1/queues"))?;
    }
    out.line(format_args!("  {curl} {url}/metrics"))?;
    for (_, app) in apps {
        let banner = app.banner();
        // Tokens of its own open an app where the rest of the server is closed.
        let curl = match banner.token_variable {
            Some(variable) => {
                format!(r#"curl -sSw '\n' -H "authorization: Bearer ${variable}""#)
            }
            None if is_open => curl.clone(),
            None => continue,
        };
        for call in banner.tries {
            let call = call.replace("{url}", url).replace("{json}", json);
            out.line(format_args!("  {curl} {call}"))?;
        }
    }
    Ok(())
}
