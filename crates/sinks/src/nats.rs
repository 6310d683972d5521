//! The nats sink: publishes to JetStream and waits until the stream has it.

mod answer;
mod config;
mod link;

use std::sync::Arc;

use async_nats::{HeaderMap, Request, ServerAddr};
use async_trait::async_trait;
use consign_kernel::QueueName;
use consign_worker::{Delivery, Sink, Verdict, printable};
use tokio::time::{Instant, timeout_at};

use self::link::{Link, WaitEnd};
use crate::{
    SinkError,
    broker::{
        self, address,
        envelope::{Envelope, idempotency_key},
        impossible, in_doubt, not_sent,
        template::Template,
    },
    config::Kind,
    limit::own_limit,
};

pub use self::config::NatsConfig;

/// The server limits a line of its protocol to 4096 bytes, which also holds the reply's subject.
const SUBJECT_BYTES_MAX: usize = 2048;

impl Kind for NatsConfig {
    const SECRETS: &'static [&'static str] = &["password", "token", "credentials"];

    async fn build(&self, queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        let servers = servers(self)?;
        let subject = subject(&self.subject, queue)?;
        if self.id_prefix != printable(&self.id_prefix, &[]) {
            let why = "may hold printable characters only";
            return Err(SinkError::invalid("id_prefix", why));
        }
        let (source, event_type) = (self.event_source.as_deref(), self.event_type.as_deref());
        let forward = &self.forward_headers;
        Ok(Arc::new(Nats {
            destination: format!("{} {}", self.servers.join(","), self.subject),
            subject,
            id_prefix: self.id_prefix.clone(),
            envelope: Envelope::new(queue, self.cloudevents, source, event_type, forward)?,
            link: Link::new(self, servers)?,
        }))
    }
}

/// One queue's nats sink.
#[derive(Debug)]
struct Nats {
    destination: String,
    subject: Template,
    id_prefix: String,
    envelope: Envelope,
    link: Link,
}

impl Nats {
    /// What is published and where, or why it cannot be.
    fn request(&self, delivery: &Delivery) -> Result<(String, Request), Verdict> {
        let subject = self.subject.fill(delivery, token);
        if subject.len() > SUBJECT_BYTES_MAX {
            let detail = format!("the subject is longer than {SUBJECT_BYTES_MAX} bytes");
            return Err(impossible("subject_invalid", detail));
        }
        let enclosed = self.envelope.enclose(delivery);
        let enclosed = enclosed.map_err(|why| impossible("header_invalid", why))?;
        let mut headers = HeaderMap::new();
        let id = format!("{}{}", self.id_prefix, idempotency_key(delivery));
        headers.insert("Nats-Msg-Id", id);
        headers.insert("Content-Type", enclosed.content_type);
        for (name, value) in enclosed.headers {
            headers.insert(name, value);
        }
        let request = Request::new()
            .payload(enclosed.body.into())
            .headers(headers)
            .timeout(None);
        Ok((subject, request))
    }
}

#[async_trait]
impl Sink for Nats {
    fn kind(&self) -> &'static str {
        "nats"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let (subject, request) = match self.request(delivery) {
            Ok(request) => request,
            Err(verdict) => return verdict,
        };
        let limit = own_limit(delivery.timeout);
        let ends = Instant::now() + limit;
        let mut ready = match self.link.ready(ends).await {
            Ok(ready) => ready,
            Err(verdict) => return verdict,
        };
        let answer = ready.client.send_request(subject.clone(), request);
        tokio::select! {
            biased;
            answer = timeout_at(ends, answer) => match answer {
                Ok(Ok(message)) => answer::verdict(&subject, &message.payload),
                Ok(Err(error)) => answer::unanswered(&subject, &error),
                Err(_) => broker::timed_out(limit),
            },
            ended = ready.ended(&subject) => match ended {
                WaitEnd::Lost => in_doubt(
                    "connection_broken",
                    "the connection broke before the stream acknowledged",
                ),
                WaitEnd::Forbidden(words) => not_sent("unauthorized", words),
            },
        }
    }
}

/// A group as one token of a subject.
fn token(group: &str) -> String {
    printable(group, &['.', '*', '>'])
}

fn subject(text: &str, queue: &QueueName) -> Result<Template, SinkError> {
    let template = Template::parse("subject", text)?;
    let example = template.fill_with(queue.as_str(), Some("group"), token);
    let refuse = |why: &str| {
        let why = format!("is {}; {why}", consign_kernel::quoted(text));
        Err(SinkError::invalid("subject", why))
    };
    if example.split('.').any(str::is_empty) {
        return refuse("must be words separated by single dots");
    }
    if example.contains(['*', '>']) || example != printable(&example, &[]) {
        return refuse("must hold neither wildcards nor blanks nor control characters");
    }
    if example.starts_with('$') || example.starts_with("_INBOX.") {
        return refuse("must not be one of NATS's own, which start with $ or _INBOX");
    }
    Ok(template)
}

fn servers(config: &NatsConfig) -> Result<Vec<ServerAddr>, SinkError> {
    if config.servers.is_empty() {
        let why = "must name at least one server, such as nats://host:4222";
        return Err(SinkError::invalid("servers", why));
    }
    let read = |text: &String| {
        let url = address::parse("servers", text, &["nats", "tls"])?;
        let refuse = |_| SinkError::invalid("servers", "is not an address such as nats://host");
        ServerAddr::from_url(url).map_err(refuse)
    };
    config.servers.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_checked_before_the_first_delivery() {
        let queue: QueueName = "mail".parse().unwrap();
        for good in ["orders", "a.{queue}.{group}", "{queue}-x.B_1"] {
            assert!(subject(good, &queue).is_ok(), "{good}");
        }
        for bad in [
            "a..b", ".a", "a.", "a.*", "a.>", "a b", "$JS.API", "_INBOX.x", "a.{id}",
        ] {
            assert!(subject(bad, &queue).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_group_is_one_token() {
        assert_eq!(token("a.b*>c d"), "a%2Eb%2A%3Ec%20d");
    }

    #[test]
    fn servers_are_checked() {
        let config = |servers: &[&str]| NatsConfig {
            servers: servers.iter().map(|it| (*it).to_owned()).collect(),
            ..serde_json::from_str(r#"{"servers":[],"subject":"a"}"#).unwrap()
        };
        assert!(servers(&config(&["nats://a:1", "tls://b"])).is_ok());
        assert!(servers(&config(&[])).is_err());
        assert!(servers(&config(&["http://a"])).is_err());
        assert!(servers(&config(&["nats://ada:tulip@a"])).is_err());
    }
}
