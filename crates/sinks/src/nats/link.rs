//! The connection to NATS. The client finds a living node of the cluster by itself; this watches it.

use std::{path::PathBuf, time::Duration};

use async_nats::{Client, ConnectOptions, Event, ServerAddr, ServerError};
use consign_kernel::with_causes;
use consign_redact::Secret;
use consign_worker::Verdict;
use tokio::{
    sync::{OnceCell, watch},
    time::{Instant, timeout_at},
};

use crate::{
    SinkError,
    broker::{not_sent, tls},
};

use super::NatsConfig;

/// The longest rest between two tries to connect.
const REST_MAX: Duration = Duration::from_secs(1);

/// A client for all deliveries of a sink, made with the first of them.
#[derive(Debug)]
pub(super) struct Link {
    servers: Vec<ServerAddr>,
    login: Login,
    tls: Tls,
    connect_timeout: Duration,
    client: OnceCell<Client>,
    health: watch::Sender<ConnectionHealth>,
}

#[derive(Debug)]
enum Login {
    Nobody,
    User { user: String, password: Secret },
    Token(Secret),
    Credentials(Secret),
}

#[derive(Debug)]
struct Tls {
    required: bool,
    ca_file: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
}

/// The last state of the connection that the client reported.
#[derive(Clone, Debug, Default)]
struct ConnectionHealth {
    connected: bool,
    /// How often the connection was lost. What was sent before the latest loss gets no answer.
    losses: u64,
    /// Why there is no connection, as far as known.
    error: Option<String>,
    /// The server rejects the credentials.
    unauthorized: bool,
    /// The last unsolicited error of the server, and how many there were.
    complaint: String,
    complaints: u64,
}

impl Link {
    pub(super) fn new(config: &NatsConfig, servers: Vec<ServerAddr>) -> Result<Self, SinkError> {
        tls::read_pem("ca_file", config.ca_file.as_deref())?;
        let (cert, key) = (&config.client_cert_file, &config.client_key_file);
        tls::read_identity(cert.as_deref(), key.as_deref())?;
        let needs_tls = servers.iter().any(ServerAddr::tls_required);
        Ok(Self {
            servers,
            login: login(config)?,
            tls: Tls {
                required: config.tls || needs_tls || config.ca_file.is_some() || cert.is_some(),
                ca_file: config.ca_file.clone(),
                client: cert.clone().zip(key.clone()),
            },
            connect_timeout: Duration::from_millis(config.connect_timeout_ms),
            client: OnceCell::new(),
            health: watch::Sender::default(),
        })
    }

    /// The client once it is connected; otherwise why it is not. Nothing has been sent then.
    pub(super) async fn ready(&self, ends: Instant) -> Result<Ready<'_>, Verdict> {
        let made = self.client.get_or_try_init(|| self.connect()).await;
        let client = made.map_err(|why| not_sent("connect_failed", why))?;
        let mut health = self.health.subscribe();
        let until = ends.min(Instant::now() + self.connect_timeout);
        let known = health.wait_for(|now| now.connected || now.unauthorized);
        // The sender is ours, so only the time can run out.
        let now = match timeout_at(until, known).await {
            Ok(Ok(now)) => now.clone(),
            Ok(Err(_)) | Err(_) => self.health.borrow().clone(),
        };
        if now.connected {
            return Ok(Ready {
                client,
                health,
                losses: now.losses,
                complaints: now.complaints,
            });
        }
        let code = if now.unauthorized {
            "unauthorized"
        } else {
            "connect_failed"
        };
        let why = now.error.as_deref().unwrap_or("no answer yet");
        Err(not_sent(code, format!("not connected: {why}")))
    }

    /// Makes a client that connects in the background, again and again.
    async fn connect(&self) -> Result<Client, String> {
        let health = self.health.clone();
        let mut options = ConnectOptions::new()
            .name("consign")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .connection_timeout(self.connect_timeout)
            .request_timeout(None)
            .reconnect_delay_callback(rest)
            .require_tls(self.tls.required)
            .event_callback(move |event| {
                note(&health, event);
                std::future::ready(())
            });
        options = match &self.login {
            Login::Nobody => options,
            Login::User { user, password } => {
                options.user_and_password(user.clone(), password.reveal().to_owned())
            }
            Login::Token(token) => options.token(token.reveal().to_owned()),
            Login::Credentials(text) => {
                let options = options.credentials(text.reveal());
                options.map_err(|e| e.to_string())?
            }
        };
        if let Some(path) = &self.tls.ca_file {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((cert, key)) = &self.tls.client {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        tls::ensure_provider();
        let servers = self.servers.clone();
        options
            .connect(servers)
            .await
            .map_err(|error| with_causes(&error))
    }
}

/// A connected client, and what to look at while waiting for its answer.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    pub(super) client: &'a Client,
    health: watch::Receiver<ConnectionHealth>,
    losses: u64,
    complaints: u64,
}

/// What ends the wait for an answer.
#[derive(Debug, PartialEq)]
pub(super) enum WaitEnd {
    /// The connection was lost.
    Lost,
    /// The server does not allow publishing to this subject. Its words.
    Forbidden(String),
}

impl Ready<'_> {
    /// Returns once a publish to `subject` can no longer be answered.
    pub(super) async fn ended(&mut self, subject: &str) -> WaitEnd {
        let quoted = format!("\"{subject}\"").to_lowercase();
        let (losses, complaints) = (self.losses, self.complaints);
        let ends = self
            .health
            .wait_for(|now| now.losses > losses || forbids(now, complaints, &quoted));
        match ends.await {
            Ok(now) if now.losses == losses => WaitEnd::Forbidden(now.complaint.clone()),
            _ => WaitEnd::Lost,
        }
    }
}

fn forbids(now: &ConnectionHealth, complaints: u64, quoted: &str) -> bool {
    let complaint = || now.complaint.to_lowercase();
    now.complaints > complaints
        && complaint().contains("permissions violation for publish")
        && complaint().contains(quoted)
}

fn note(health: &watch::Sender<ConnectionHealth>, event: Event) {
    health.send_modify(|now| match event {
        Event::Connected => {
            now.connected = true;
            now.unauthorized = false;
            now.error = None;
        }
        Event::Disconnected | Event::Closed => {
            now.connected = false;
            now.losses += 1;
        }
        Event::ServerError(ServerError::AuthorizationViolation) => {
            now.unauthorized = true;
            now.error = Some("the server refuses the credentials".into());
        }
        Event::ServerError(error) => {
            now.complaint = error.to_string();
            now.complaints += 1;
        }
        Event::ClientError(error) => {
            let text = error.to_string();
            if text.contains("authorization violation") {
                now.unauthorized = true;
                now.error = Some("the server refuses the credentials".into());
            } else if !now.connected {
                now.unauthorized = false;
                now.error = Some(text);
            }
        }
        Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_) => {}
    });
}

fn rest(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts).unwrap_or(u32::MAX).min(10);
    match attempts {
        0 | 1 => Duration::ZERO,
        _ => Duration::from_millis(2_u64.pow(doublings)).min(REST_MAX),
    }
}

fn login(config: &NatsConfig) -> Result<Login, SinkError> {
    let refuse = |option: &str, why: &str| Err(SinkError::invalid(option, why));
    let ways = [
        config.user.is_some() || config.password.is_some(),
        config.token.is_some(),
        config.credentials.is_some(),
    ];
    if ways.iter().filter(|given| **given).count() > 1 {
        return refuse(
            "user",
            "excludes `token` and `credentials`: there is one way to log in",
        );
    }
    if let Some(token) = &config.token {
        return Ok(Login::Token(token.read("token")?));
    }
    if let Some(credentials) = &config.credentials {
        let text = credentials.read("credentials")?;
        // Read here, so that a wrong file is reported before the first delivery.
        if ConnectOptions::with_credentials(text.reveal()).is_err() {
            return refuse(
                "credentials",
                "hold no user JWT with its seed, as `nsc` writes them",
            );
        }
        return Ok(Login::Credentials(text));
    }
    match (&config.user, &config.password) {
        (Some(user), Some(password)) => Ok(Login::User {
            user: user.clone(),
            password: password.read("password")?,
        }),
        (Some(_), None) => refuse("user", "needs a `password`"),
        (None, Some(_)) => refuse("password", "needs a `user`"),
        (None, None) => Ok(Login::Nobody),
    }
}
