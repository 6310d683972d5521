//! The gateway under test: a `consign serve` started here, or a running one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use consign_app::{
    config::{Config, Origin},
    database::Address,
    failure::Failure,
};
use consign_outbound::{ReadLimit, causes, read_body};
use reqwest::{Client, Method};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, timeout},
};

use super::{outcome::StepFailure, server::end, stack::WRITER};
use crate::Correlation;

/// How long it may take to listen.
const START_MAX: Duration = Duration::from_secs(30);
/// How long an answer may take, beyond the budget of a memory.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Maximum size of an answer: a page of memories and their evidence.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Maximum log output shown after a failure.
const LOG_SHOWN: usize = 600;

/// HTTP client of the gateway.
pub(super) struct Gateway {
    pub(super) url: String,
    token: Option<String>,
    client: Client,
    /// `None`: a running one, or it did not start.
    child: Option<Child>,
    /// Why it did not start.
    is_broken: Option<String>,
}

/// A reply.
pub(super) struct GatewayReply {
    pub(super) status: u16,
    /// `X-Correlation-ID`.
    pub(super) correlation_id: Option<String>,
    /// Null if there is no JSON body.
    pub(super) body: Value,
}

impl Gateway {
    /// A running gateway.
    pub(super) fn at(url: &str, token: Option<String>) -> Result<Self, Failure> {
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            token,
            client: client()?,
            child: None,
            is_broken: None,
        })
    }

    /// Starts a gateway without a worker, so that deferred memories stay in the outbox. Every request fails if
    /// it does not start.
    pub(super) async fn start(files: &Files) -> Result<Self, Failure> {
        let mut child = files
            .command(&[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--no-work",
                "--keep-policies",
            ])
            .stdout(Stdio::piped())
            .spawn()?;
        let url = listening(&mut child).await;
        let mut gateway = Self::at(url.as_deref().unwrap_or_default(), files.token.clone())?;
        match url {
            Some(_) => gateway.child = Some(child),
            None => {
                let why = format!("the gateway did not start: {}", files.log_tail());
                gateway.is_broken = Some(why);
            }
        }
        Ok(gateway)
    }

    /// Whether the gateway requires a token.
    pub(super) fn is_closed(&self) -> bool {
        self.token.is_some()
    }

    /// Sends a request with the token.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<GatewayReply, StepFailure> {
        self.send(method, path, body, self.token.as_deref()).await
    }

    /// Sends a request without a token.
    pub(super) async fn ask_openly(
        &self,
        path: &str,
        body: String,
    ) -> Result<GatewayReply, StepFailure> {
        self.send(Method::POST, path, Some(body), None).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        token: Option<&str>,
    ) -> Result<GatewayReply, StepFailure> {
        if let Some(why) = &self.is_broken {
            return Err(StepFailure::new("request_failed", why));
        }
        let mut request = self
            .client
            .request(method.clone(), format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if method == Method::OPTIONS {
            request = request.header("access-control-request-method", "POST");
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json");
            request = request.body(body);
        }
        let failed = |error: reqwest::Error| {
            let why = format!("{method} {path}: {}", causes(&error));
            StepFailure::new("request_failed", why)
        };
        let response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let named = response.headers().get("x-correlation-id");
        let named = named.and_then(|name| name.to_str().ok()).map(str::to_owned);
        let ends = ReadLimit::Until(Instant::now() + ANSWER_MAX);
        let read = read_body(response, ANSWER_BYTES_MAX, ends).await;
        let bytes = read.complete().map_err(|error| {
            StepFailure::new("request_failed", format!("{method} {path}: {error}"))
        })?;
        Ok(GatewayReply {
            status,
            correlation_id: named,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        })
    }

    /// A request of the protocol.
    pub(super) async fn rpc(
        &self,
        method: &str,
        params: Value,
    ) -> Result<GatewayReply, StepFailure> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = Some(body.to_string());
        self.ask(Method::POST, "/mcp", body).await
    }

    /// Calls a tool through the protocol.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, StepFailure> {
        let params = json!({"name": tool, "arguments": arguments});
        let reply = self.rpc("tools/call", params).await?;
        let text = reply.body["result"]["content"][0]["text"].as_str();
        let details = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        let details =
            details.filter(|details| details["correlation_id"] == json!(reply.correlation_id));
        details.ok_or_else(|| {
            let why = format!("{tool} answered {}: {}", reply.status, reply.body);
            StepFailure::new("response_check_failed", why)
        })
    }

    /// Calls a tool by its route; a decision is not a failure.
    pub(super) async fn post(&self, path: &str, arguments: &Value) -> Result<Value, StepFailure> {
        let body = Some(arguments.to_string());
        let reply = self.ask(Method::POST, path, body).await?;
        let is_named = reply.body["correlation_id"] == json!(reply.correlation_id);
        match reply.status {
            200 if is_named && reply.body.is_object() => Ok(reply.body),
            status => {
                let why = format!("{path} answered {status}: {}", reply.body);
                Err(StepFailure::new("response_check_failed", why))
            }
        }
    }

    /// Stops a gateway started here; an error if it did not end cleanly.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        match self.child.take() {
            None => Ok(()),
            Some(child) => {
                if end(child).await?.success() {
                    Ok(())
                } else {
                    Err("the gateway did not end cleanly".to_owned())
                }
            }
        }
    }
}

fn client() -> Result<Client, Failure> {
    let built = consign_outbound::client(None)
        .map_err(|error| error.to_string())
        .and_then(|builder| {
            let built = builder.timeout(ANSWER_MAX).build();
            built.map_err(|error| error.to_string())
        });
    built.map_err(|error| Failure::usage(format!("no HTTP client: {error}")))
}

/// Reads its output until it prints its address.
async fn listening(child: &mut Child) -> Option<String> {
    let mut lines = BufReader::new(child.stdout.take()?).lines();
    let details = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(url) = line.strip_prefix("listening ") {
                return Some(url.trim().to_owned());
            }
        }
        None
    };
    let url = timeout(START_MAX, details).await.ok().flatten()?;
    // Its output must be read on, or it would block.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some(url)
}

/// The configuration of the processes under test: only settings of memories and the database, so that no
/// other queue is used.
pub(super) struct Files {
    config: PathBuf,
    log: PathBuf,
    token: Option<String>,
}

impl Files {
    pub(super) fn write(
        folder: &Path,
        config: &Config,
        address: &Address,
        more: &[(&str, Value)],
    ) -> Result<Self, Failure> {
        let mut memory = set_values(config, "memory");
        memory.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
        // Whoever says nothing about memories leaves their queue as it is; so does this file then.
        let token = (!memory.is_empty()).then(|| Correlation::new().to_string());
        if let Some(token) = &token {
            let tokens = json!([{"token": token, "actor": WRITER, "admin": true}]);
            memory.remove("gateway_auth_token");
            memory.insert(
                "gateway_auth_tokens_json".to_owned(),
                json!(tokens.to_string()),
            );
        }
        let mut database = set_values(config, "database");
        let url = match address {
            Address::Sqlite { path, .. } => format!("sqlite:{}", path.display()),
            Address::Postgres { url } => url.clone(),
        };
        database.insert("url".to_owned(), json!(url));
        let mut file = json!({"apps": [crate::QUEUE], "database": database});
        if !memory.is_empty() {
            file["memory"] = Value::Object(memory);
        }
        let text = toml::to_string(&file);
        let text = text.map_err(|error| Failure::usage(format!("the configuration: {error}")))?;
        let files = Self {
            config: folder.join("consign.toml"),
            log: folder.join("log"),
            token,
        };
        fs::write(&files.config, text)?;
        Ok(files)
    }

    /// This program, in another process.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("consign"));
        let mut command = Command::new(program);
        // What the environment says is in the file already, unless it is not to be said.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let is_ours = ["CONSIGN_", "OPENMEMORY_", "GATEWAY_", "WORKER_"];
            let is_ours = is_ours.iter().any(|ours| text.starts_with(ours));
            let others = [
                "DATABASE_URL",
                "POSTGRES_DSN",
                "OM_API_KEY",
                "NOTIFY_SOCKET",
            ];
            if is_ours || others.contains(&&*text) {
                command.env_remove(&name);
            }
        }
        command
            .arg("--config")
            .arg(&self.config)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log().map_or_else(|_| Stdio::null(), Stdio::from))
            .kill_on_drop(true);
        command
    }

    fn log(&self) -> std::io::Result<fs::File> {
        let mut log = fs::OpenOptions::new();
        log.create(true).append(true).open(&self.log)
    }

    /// The end of the processes' logs.
    pub(super) fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let log = log.trim();
        let from = log.len().saturating_sub(LOG_SHOWN);
        let from = (from..=log.len()).find(|at| log.is_char_boundary(*at));
        log[from.unwrap_or_default()..].to_owned()
    }
}

/// The set values of a table.
fn set_values(config: &Config, table: &str) -> Map<String, Value> {
    let values = config.values().filter(|(path, entry)| {
        let is_here = path.segments().first().is_some_and(|name| name == table);
        is_here && entry.origin != Origin::Default
    });
    values
        .map(|(path, entry)| (path.last().to_owned(), entry.value.clone()))
        .collect()
}
