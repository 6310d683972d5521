//! The redis sink: adds entries to a stream.

mod config;
mod failure;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::QueueName;
use consign_worker::{Delivery, Probe, Sink, Verdict};
use jiff::{SignedDuration, Timestamp};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, TlsCertificates, aio::MultiplexedConnection, cmd,
};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::{
    SinkError,
    broker::{
        self, address, not_sent,
        slot::{HealthCheck, Slot},
        template::Template,
        tls,
    },
    config::Kind,
    limit::own_limit,
};

pub use self::config::RedisConfig;

const ADD_ONCE: &str = include_str!("redis/add_once.lua");

/// The clocks of the database and of this machine may differ by as much.
const CLOCKS_DIFFER_MAX: SignedDuration = SignedDuration::from_hours(1);

impl Kind for RedisConfig {
    const SECRETS: &'static [&'static str] = &["password"];

    async fn build(&self, _queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        for (option, value) in [
            ("max_len", self.max_len),
            ("dedupe_ttl_ms", self.dedupe_ttl_ms),
        ] {
            if value == Some(0) {
                return Err(SinkError::invalid(
                    option,
                    "is 0; must be more than 0, or left out",
                ));
            }
        }
        Ok(Arc::new(Redis {
            destination: format!("{} {}", self.url, self.stream),
            stream: Template::parse("stream", &self.stream)?,
            max_len: self.max_len,
            dedupe_ttl_ms: self.dedupe_ttl_ms,
            connect_timeout: Duration::from_millis(self.connect_timeout_ms),
            client: client(self)?,
            slot: Slot::new(),
        }))
    }
}

/// One queue's redis sink.
struct Redis {
    destination: String,
    stream: Template,
    max_len: Option<u64>,
    dedupe_ttl_ms: Option<u64>,
    connect_timeout: Duration,
    client: Client,
    slot: Slot<Wire>,
}

/// A connection on which any number of commands may be under way.
struct Wire {
    connection: MultiplexedConnection,
    broken: AtomicBool,
}

impl HealthCheck for Wire {
    fn is_live(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }
}

impl Redis {
    async fn connect(&self) -> Result<Wire, Verdict> {
        match tokio::time::timeout(self.connect_timeout, self.open()).await {
            Ok(opened) => opened.map_err(|error| failure::before_command(&error)),
            Err(_) => Err(not_sent("connect_timeout", "no connection in time")),
        }
    }

    async fn open(&self) -> Result<Wire, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(None);
        let client = &self.client;
        let opening = client.get_multiplexed_async_connection_with_config(&config);
        let wire = Wire {
            connection: opening.await?,
            broken: AtomicBool::new(false),
        };
        // Redis may accept connections and yet reject logins, or be loading its data still. A user that may not
        // ping is logged in.
        match self.run::<String>(&wire, &cmd("PING")).await {
            Err(error) if error.code() != Some("NOPERM") => Err(error),
            _ => Ok(wire),
        }
    }

    /// Runs a command and sees to it that a broken connection is not used again.
    async fn run<T: redis::FromRedisValue>(&self, wire: &Wire, cmd: &Cmd) -> Result<T, RedisError> {
        let answer = cmd.query_async(&mut wire.connection.clone()).await;
        if let Err(error) = &answer
            && error.code().is_none()
        {
            wire.broken.store(true, Ordering::Relaxed);
        }
        answer
    }

    async fn add(&self, wire: &Wire, delivery: &Delivery) -> Result<Verdict, RedisError> {
        let stream = self.stream.fill(delivery, str::to_owned);
        let Some(ttl_ms) = self.dedupe_ttl_ms else {
            let mut add = cmd("XADD");
            add.arg(stream);
            if let Some(max_len) = self.max_len {
                add.arg("MAXLEN").arg("~").arg(max_len);
            }
            add.arg("*").arg(fields(delivery));
            let entry: String = self.run(wire, &add).await?;
            return Ok(Verdict::delivered().with_result(json!({ "entry": entry })));
        };
        let mut add = cmd("EVAL");
        add.arg(ADD_ONCE).arg(2);
        add.arg(&stream).arg(memory(&stream, delivery)).arg(ttl_ms);
        add.arg(self.max_len.map(|it| it.to_string()).unwrap_or_default());
        add.arg(fields(delivery));
        let (entry, duplicate): (String, bool) = self.run(wire, &add).await?;
        let result = if duplicate {
            json!({ "entry": entry, "duplicate": true })
        } else {
            json!({ "entry": entry })
        };
        Ok(Verdict::delivered().with_result(result))
    }

    /// Whether Redis remembers the message, and whether it must if it has it.
    async fn recall(&self, wire: &Wire, delivery: &Delivery, ttl_ms: u64) -> Probe {
        let stream = self.stream.fill(delivery, str::to_owned);
        let mut get = cmd("GET");
        get.arg(memory(&stream, delivery));
        match self.run::<Option<String>>(wire, &get).await {
            Ok(Some(entry)) => Probe::Delivered(Some(json!({ "entry": entry }))),
            Ok(None) if is_remembered_still(delivery, ttl_ms) => Probe::NotDelivered,
            Ok(None) => Probe::CannotTell("Redis may have forgotten it by now".into()),
            Err(error) => {
                Probe::CannotTell(failure::before_command(&error).detail.unwrap_or_default())
            }
        }
    }
}

/// No attempt is older than its message. A younger message than Redis's memory is not forgotten.
fn is_remembered_still(delivery: &Delivery, ttl_ms: u64) -> bool {
    let age = Timestamp::now().duration_since(delivery.message.created_at);
    let ttl = SignedDuration::from_millis(i64::try_from(ttl_ms).unwrap_or(i64::MAX));
    age.saturating_add(CLOCKS_DIFFER_MAX) < ttl
}

/// The key that remembers a message: in a cluster, on the node that holds the stream.
fn memory(stream: &str, delivery: &Delivery) -> String {
    let key = delivery.idempotency_key();
    let tagged = stream
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .is_some_and(|(tag, _)| !tag.is_empty());
    if tagged {
        format!("{stream}:consign:{key}")
    } else {
        format!("{{{stream}}}:consign:{key}")
    }
}

/// The fields of an entry, names and values by turns.
fn fields(delivery: &Delivery) -> Vec<String> {
    let message = &*delivery.message;
    let mut fields = Vec::new();
    let mut add = |name: &str, value: String| fields.extend([name.to_owned(), value]);
    add("id", message.id.to_string());
    add("queue", message.queue.to_string());
    if let Some(key) = &message.key {
        add("key", key.clone());
    }
    if let Some(group) = &message.group {
        add("group", group.clone());
    }
    add("payload", message.payload.as_str().to_owned());
    if !message.headers.is_empty() {
        add("headers", json!(message.headers).to_string());
    }
    add("fence", delivery.fence.to_string());
    add("attempt", delivery.attempt_no.to_string());
    fields
}

#[async_trait]
impl Sink for Redis {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let limit = own_limit(delivery.timeout);
        let ends = Instant::now() + limit;
        let wire = match self.slot.get(ends, self.connect()).await {
            Ok(wire) => wire,
            Err(verdict) => return verdict,
        };
        match timeout_at(ends, self.add(&wire, delivery)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => failure::after_command(&error),
            Err(_) => {
                // It may be half open; a new one costs little.
                wire.broken.store(true, Ordering::Relaxed);
                broker::timed_out(limit)
            }
        }
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        let Some(ttl_ms) = self.dedupe_ttl_ms else {
            return Probe::CannotTell("without `dedupe_ttl_ms` Redis does not remember".into());
        };
        let ends = Instant::now() + own_limit(delivery.timeout);
        let wire = match self.slot.get(ends, self.connect()).await {
            Ok(wire) => wire,
            Err(verdict) => return Probe::CannotTell(verdict.detail.unwrap_or_default()),
        };
        match timeout_at(ends, self.recall(&wire, delivery, ttl_ms)).await {
            Ok(probe) => probe,
            Err(_) => Probe::CannotTell("Redis did not answer in time".into()),
        }
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

fn client(config: &RedisConfig) -> Result<Client, SinkError> {
    let url = address::parse("url", &config.url, &["redis", "rediss"])?;
    let refuse = |error: RedisError| {
        SinkError::invalid(
            "url",
            format!("cannot build a client: {}", error.category()),
        )
    };
    let info = url.as_str().into_connection_info().map_err(refuse)?;
    let mut login: RedisConnectionInfo = info.redis_settings().clone();
    if let Some(password) = &config.password {
        login = login.set_password(password.read("password")?.reveal());
    }
    if let Some(user) = &config.user {
        if config.password.is_none() {
            return Err(SinkError::invalid("user", "needs a `password`"));
        }
        login = login.set_username(user);
    }
    let info = info.set_redis_settings(login);
    let identity = tls::read_identity(
        config.client_cert_file.as_deref(),
        config.client_key_file.as_deref(),
    )?;
    let ca = tls::read_pem("ca_file", config.ca_file.as_deref())?;
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        if ca.is_some() || identity.is_some() {
            let why = "must start with rediss://: certificates need TLS";
            return Err(SinkError::invalid("url", why));
        }
        return Client::open(info).map_err(refuse);
    }
    tls::ensure_provider();
    let certificates = TlsCertificates {
        client_tls: identity.map(|(cert, key)| ClientTlsConfig {
            client_cert: cert.into_bytes(),
            client_key: key.into_bytes(),
        }),
        root_cert: ca.map(String::into_bytes),
    };
    Client::build_with_tls(info, certificates).map_err(refuse)
}
