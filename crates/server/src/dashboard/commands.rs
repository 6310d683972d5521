//! Commands for a shell: what the page of a message does, over the API.

use axum::http::{HeaderMap, header};
use consign_kernel::{Message, StateKind};
use serde_json::json;

use crate::options::ServerOptions;

/// A command, and what it does.
pub(super) struct Command {
    pub(super) title: &'static str,
    pub(super) text: String,
}

/// How to reach the API from a shell.
struct Api {
    url: String,
    /// With a token, where one is needed.
    curl: &'static str,
}

/// The commands for a message; those that carry its payload only where it is revealed.
pub(super) fn of(
    (options, headers): (&ServerOptions, &HeaderMap),
    message: &Message,
    state: StateKind,
    is_revealed: bool,
) -> Vec<Command> {
    let host = headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let is_https = options.has_tls() || options.dashboard_secure_cookie;
    let scheme = if is_https { "https" } else { "http" };
    let api = Api {
        url: match host {
            Some(host) => format!("{scheme}://{host}"),
            None => format!("{scheme}://{}", options.listen),
        },
        curl: if options.needs_token() {
            "curl -sS -H \"authorization: Bearer $CONSIGN_TOKEN\""
        } else {
            "curl -sS"
        },
    };
    let id = message.id;
    let mut commands = vec![Command {
        title: "Show it with every attempt",
        text: format!("{} {}", api.curl, api.path(&format!("/v1/messages/{id}"))),
    }];
    if state == StateKind::Dead {
        let body = json!({"reason": "REASON"}).to_string();
        let path = format!("/v1/messages/{id}/requeue");
        commands.push(Command {
            title: "Requeue it",
            text: api.post(&path, &body),
        });
    }
    if is_revealed {
        let mut copy = serde_json::Map::new();
        if let Some(group) = &message.group {
            copy.insert("group".to_owned(), json!(group));
        }
        if !message.headers.is_empty() {
            copy.insert("headers".to_owned(), json!(message.headers));
        }
        let rest = serde_json::to_string(&copy).expect("invariant: JSON values serialise");
        // The payload as it is: its numbers must stay exact.
        let payload = message.payload.as_str();
        let body = match rest.strip_prefix('{') {
            Some("}") | None => format!("{{\"payload\":{payload}}}"),
            Some(rest) => format!("{{\"payload\":{payload},{rest}"),
        };
        let path = format!("/v1/queues/{}/messages", message.queue);
        commands.push(Command {
            title: "Enqueue a copy of it",
            text: api.post(&path, &body),
        });
    }
    commands
}

impl Api {
    fn path(&self, path: &str) -> String {
        quoted(&format!("{}{path}", self.url))
    }

    fn post(&self, path: &str, body: &str) -> String {
        format!(
            "{} {} -H 'content-type: application/json' -d {}",
            self.curl,
            self.path(path),
            quoted(body)
        )
    }
}

/// A text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consign_kernel::{MessageId, Payload};
    use jiff::Timestamp;

    #[test]
    fn a_copy_is_one_command_whatever_the_payload_has_in_it() {
        let message = Message {
            id: MessageId(7),
            queue: "mail".parse().unwrap(),
            key: None,
            group: Some("g".to_owned()),
            payload: Payload::parse(r#"{"it's":1.50}"#).unwrap(),
            headers: serde_json::Map::new(),
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
        };
        let options = ServerOptions::default();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost:1".parse().unwrap());
        let from = (&options, &headers);
        let hidden = of(from, &message, StateKind::Dead, false);
        assert_eq!(hidden.len(), 2);
        assert_eq!(
            hidden[0].text,
            "curl -sS 'http://localhost:1/v1/messages/7'"
        );
        assert!(!hidden.iter().any(|command| command.text.contains("1.50")));
        let shown = of(from, &message, StateKind::Delivered, true);
        assert_eq!(
            shown[1].text,
            r#"curl -sS 'http://localhost:1/v1/queues/mail/messages' -H 'content-type: application/json' -d '{"payload":{"it'\''s":1.50},"group":"g"}'"#
        );
    }
}
