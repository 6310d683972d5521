//! The rabbitmq sink: publishes and waits for the broker's confirmation.

mod config;
mod failure;
mod pool;

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::QueueName;
use consign_worker::{Delivery, Sink, Verdict};
use lapin::{
    BasicProperties, Confirmation,
    options::BasicPublishOptions,
    types::{AMQPValue, FieldTable, ShortString},
    uri::{AMQPUri, AMQPUserInfo},
};
use tokio::time::{Instant, timeout_at};

use self::pool::{ChannelLease, Pool};
use crate::{
    SinkError,
    broker::{
        self, address,
        envelope::{EnclosedMessage, Envelope, idempotency_key},
        impossible, in_doubt, not_sent,
        template::Template,
    },
    config::Kind,
    limit::own_limit,
};

pub use self::config::RabbitmqConfig;

/// The longest name or routing key that AMQP can carry.
const SHORT_BYTES_MAX: usize = 255;

/// A message survives a restart of RabbitMQ in a durable queue.
const PERSISTENT: u8 = 2;

impl Kind for RabbitmqConfig {
    const SECRETS: &'static [&'static str] = &["password"];

    async fn build(&self, queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        let routing_key = Template::parse("routing_key", &self.routing_key)?;
        if self.exchange.len() > SHORT_BYTES_MAX {
            let why = format!(
                "has {} bytes; maximum is {SHORT_BYTES_MAX}",
                self.exchange.len()
            );
            return Err(SinkError::invalid("exchange", why));
        }
        let (source, event_type) = (self.event_source.as_deref(), self.event_type.as_deref());
        let forward = &self.forward_headers;
        Ok(Arc::new(Rabbitmq {
            destination: format!("{} {} {}", self.url, self.exchange, self.routing_key),
            exchange: self.exchange.as_str().into(),
            routing_key,
            envelope: Envelope::new(queue, self.cloudevents, source, event_type, forward)?,
            pool: Pool::new(self, uri(self)?)?,
        }))
    }
}

/// One queue's rabbitmq sink.
#[derive(Debug)]
struct Rabbitmq {
    destination: String,
    exchange: ShortString,
    routing_key: Template,
    envelope: Envelope,
    pool: Pool,
}

impl Rabbitmq {
    async fn publish(&self, lent: ChannelLease, publish: Publish) -> Verdict {
        let options = BasicPublishOptions {
            // An unroutable message is returned instead of dropped.
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let (exchange, key) = (self.exchange.clone(), publish.routing_key);
        let sending =
            lent.channel
                .basic_publish(exchange, key, options, &publish.body, publish.properties);
        let confirmed = match sending.await {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        };
        let verdict = match confirmed {
            Ok(Confirmation::Ack(None)) => Verdict::delivered(),
            Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) => not_sent(
                "unroutable",
                format!("no queue takes it: {}", returned.reply_text),
            ),
            Ok(Confirmation::Nack(None)) => not_sent("nacked", "RabbitMQ did not accept it"),
            Ok(Confirmation::NotRequested) => {
                return in_doubt("not_confirmed", "publisher confirms are not enabled");
            }
            Err(error) => return failure::after_publish(&error, publish.body.len()),
        };
        lent.put_back();
        verdict
    }

    fn prepare(&self, delivery: &Delivery) -> Result<Publish, Verdict> {
        let routing_key = self.routing_key.fill(delivery, str::to_owned);
        if routing_key.len() > SHORT_BYTES_MAX {
            let detail = format!("the routing key is longer than {SHORT_BYTES_MAX} bytes");
            return Err(impossible("routing_key_too_long", detail));
        }
        let enclosed = self.envelope.enclose(delivery);
        let enclosed = enclosed.map_err(|why| impossible("header_invalid", why))?;
        Ok(Publish {
            routing_key: routing_key.as_str().into(),
            properties: properties(delivery, &enclosed),
            body: enclosed.body,
        })
    }
}

/// One message as RabbitMQ gets it.
struct Publish {
    routing_key: ShortString,
    properties: BasicProperties,
    body: Vec<u8>,
}

fn properties(delivery: &Delivery, enclosed: &EnclosedMessage) -> BasicProperties {
    let id = idempotency_key(delivery);
    let mut headers = FieldTable::default();
    let mut add = |name: &str, value: &str| {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    };
    // The property for it is too short for the longest keys.
    add("Idempotency-Key", &id);
    for (name, value) in &enclosed.headers {
        add(name, value);
    }
    let created_at = delivery.message.created_at.as_second();
    let properties = BasicProperties::default()
        .with_content_type(enclosed.content_type.into())
        .with_delivery_mode(PERSISTENT)
        .with_app_id("consign".into())
        .with_timestamp(u64::try_from(created_at).unwrap_or_default())
        .with_headers(headers);
    if id.len() <= SHORT_BYTES_MAX {
        properties.with_message_id(id.as_str().into())
    } else {
        properties
    }
}

#[async_trait]
impl Sink for Rabbitmq {
    fn kind(&self) -> &'static str {
        "rabbitmq"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let publish = match self.prepare(delivery) {
            Ok(publish) => publish,
            Err(verdict) => return verdict,
        };
        let limit = own_limit(delivery.timeout);
        let ends = Instant::now() + limit;
        let lent = match self.pool.lend(ends).await {
            Ok(lent) => lent,
            Err(verdict) => return verdict,
        };
        match timeout_at(ends, self.publish(lent, publish)).await {
            Ok(verdict) => verdict,
            Err(_) => broker::timed_out(limit),
        }
    }
}

fn uri(config: &RabbitmqConfig) -> Result<AMQPUri, SinkError> {
    let url = address::parse("url", &config.url, &["amqp", "amqps"])?;
    let refuse = |_| SinkError::invalid("url", "is not an address such as amqp://host:5672/vhost");
    let mut uri: AMQPUri = url.as_str().parse().map_err(refuse)?;
    // A bare slash means the empty virtual host to AMQP, and the default one to other clients.
    if matches!(url.path(), "" | "/") {
        uri.vhost = "/".into();
    }
    if url.query().is_some() {
        return Err(SinkError::invalid("url", "must not have a query"));
    }
    let password = match (&config.user, &config.password) {
        (_, Some(password)) => password.read("password")?.reveal().to_owned(),
        (Some(_), None) => return Err(SinkError::invalid("user", "needs a `password`")),
        (None, None) => "guest".into(),
    };
    uri.authority.userinfo = AMQPUserInfo {
        username: config.user.clone().unwrap_or_else(|| "guest".into()),
        password,
    };
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> RabbitmqConfig {
        let text = format!(r#"{{"url":"{url}","routing_key":"a"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_virtual_host_is_the_usual_one_unless_named() {
        for (url, vhost) in [
            ("amqp://host", "/"),
            ("amqp://host/", "/"),
            ("amqp://host/%2f", "/"),
            ("amqps://host:5671/shop", "shop"),
        ] {
            assert_eq!(uri(&config(url)).unwrap().vhost, vhost, "{url}");
        }
    }

    #[test]
    fn credentials_have_options_of_their_own() {
        assert!(uri(&config("amqp://ada:tulip@host")).is_err());
        assert!(uri(&config("amqp://host?heartbeat=1")).is_err());
        let user = Some("ada".to_owned());
        let lonely = RabbitmqConfig {
            user,
            ..config("amqp://host")
        };
        let error = uri(&lonely).unwrap_err().to_string();
        assert_eq!(error, "sink option `user` needs a `password`");
    }
}
