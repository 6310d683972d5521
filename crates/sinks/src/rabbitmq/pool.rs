//! One connection with many channels, each used by one delivery at a time.
//!
//! RabbitMQ answers a publish it cannot take by closing the channel, and whatever else is under way
//! on that channel is then in doubt. With a channel of its own, each delivery has its own answer.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use consign_worker::Verdict;
use lapin::{
    Channel, Connection, ConnectionProperties, ExchangeKind,
    options::{ConfirmSelectOptions, ExchangeDeclareOptions},
    tcp::{OwnedIdentity, OwnedTLSConfig},
    types::FieldTable,
    uri::AMQPUri,
};
use tokio::time::{Instant, timeout_at};

use super::failure;
use crate::{
    SinkError,
    broker::{
        not_sent,
        slot::{HealthCheck, Slot},
        tls,
    },
};

use super::RabbitmqConfig;

/// Short, so that a peer that vanished is noticed before most deliveries give up.
const HEARTBEAT_SECONDS: u16 = 10;

/// Where deliveries get their channels.
pub(super) struct Pool {
    uri: AMQPUri,
    tls: OwnedTLSConfig,
    exchange: String,
    connect_timeout: Duration,
    slot: Slot<Wire>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address holds the password.
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

/// A connection and its idle channels.
struct Wire {
    connection: Connection,
    idle: Mutex<Vec<Channel>>,
}

impl HealthCheck for Wire {
    fn is_live(&self) -> bool {
        self.connection.status().connected()
    }
}

impl Wire {
    fn idle(&self) -> Option<Channel> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|channel| channel.status().connected())
    }
}

/// A channel with confirms, for one delivery. Closed when dropped, so that a delivery that is
/// given up cannot confuse the next.
pub(super) struct ChannelLease {
    pub(super) channel: Channel,
    wire: std::sync::Arc<Wire>,
}

impl ChannelLease {
    /// Returns a channel on which nothing is under way.
    pub(super) fn put_back(self) {
        let mut idle = self
            .wire
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        idle.push(self.channel);
    }
}

impl Pool {
    pub(super) fn new(config: &RabbitmqConfig, mut uri: AMQPUri) -> Result<Self, SinkError> {
        uri.query.heartbeat = Some(HEARTBEAT_SECONDS);
        uri.query.connection_timeout = Some(config.connect_timeout_ms);
        let identity = tls::read_identity(
            config.client_cert_file.as_deref(),
            config.client_key_file.as_deref(),
        )?;
        Ok(Self {
            uri,
            tls: OwnedTLSConfig {
                identity: identity.map(|(cert, key)| OwnedIdentity::PKCS8 {
                    pem: cert.into_bytes(),
                    key: key.into_bytes(),
                }),
                cert_chain: tls::read_pem("ca_file", config.ca_file.as_deref())?,
            },
            exchange: config.exchange.clone(),
            connect_timeout: Duration::from_millis(config.connect_timeout_ms),
            slot: Slot::new(),
        })
    }

    /// A channel with confirms, on an exchange that exists; or why there is none.
    pub(super) async fn lend(&self, ends: Instant) -> Result<ChannelLease, Verdict> {
        let wire = self.slot.get(ends, self.connect()).await?;
        if wire.connection.status().blocked() {
            let detail = "RabbitMQ is short of memory or disk and accepts no messages";
            return Err(not_sent("broker_blocked", detail));
        }
        if let Some(channel) = wire.idle() {
            return Ok(ChannelLease { channel, wire });
        }
        match timeout_at(ends, self.open(&wire.connection)).await {
            Ok(Ok(channel)) => Ok(ChannelLease { channel, wire }),
            Ok(Err(error)) => Err(failure::before_publish(&error)),
            Err(_) => Err(not_sent(
                "connect_timeout",
                "no channel in time; nothing was sent",
            )),
        }
    }

    async fn connect(&self) -> Result<Wire, Verdict> {
        tls::ensure_provider();
        let properties = ConnectionProperties::default().with_connection_name("consign".into());
        let runtime = lapin::runtime::default_runtime();
        let runtime = runtime.map_err(|error| failure::before_publish(&error))?;
        let (uri, tls) = (self.uri.clone(), self.tls.clone());
        let connecting = Connection::connect_uri_with_config(uri, properties, tls, runtime);
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(Ok(connection)) => Ok(Wire {
                connection,
                idle: Mutex::default(),
            }),
            Ok(Err(error)) => Err(failure::before_publish(&error)),
            Err(_) => Err(not_sent("connect_timeout", "no connection in time")),
        }
    }

    async fn open(&self, connection: &Connection) -> lapin::Result<Channel> {
        let channel = connection.create_channel().await?;
        // The default exchange always exists and may not be declared.
        if !self.exchange.is_empty() {
            let options = ExchangeDeclareOptions {
                passive: true,
                ..ExchangeDeclareOptions::default()
            };
            let (kind, table) = (ExchangeKind::Direct, FieldTable::default());
            let name = self.exchange.as_str().into();
            channel.exchange_declare(name, kind, options, table).await?;
        }
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(channel)
    }
}
