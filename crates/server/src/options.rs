//! How the server is set up: the `[server]` part of the configuration.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    session_key::SessionKey,
    token::{Scope, TokenHash},
};

/// The options of the server. Missing fields have their default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerOptions {
    /// Where to listen; `localhost` is 127.0.0.1.
    #[serde(deserialize_with = "listen_text")]
    pub listen: SocketAddr,
    /// The accepted tokens. Empty: callers on this machine may use the whole API, unless an app
    /// has tokens of its own.
    pub tokens: Vec<TokenEntry>,
    /// Whether an app has tokens of its own. Then every path needs a token: what its callers may
    /// not read without one must not be open elsewhere.
    #[serde(skip)]
    pub apps_have_tokens: bool,
    /// Files that the process opens besides connections of clients: those to its database.
    #[serde(skip)]
    pub other_files: usize,
    /// Certificate chain in PEM. With `tls_key` the server serves HTTPS, without both HTTP.
    pub tls_cert: Option<PathBuf>,
    /// Private key in PEM.
    pub tls_key: Option<PathBuf>,
    /// Permits plain HTTP on an address that others can reach, as behind a proxy that ends TLS.
    pub allow_plain_http: bool,
    /// Permits a server without tokens on an address that others can reach. No
    /// effect where there are tokens.
    pub allow_anonymous: bool,
    /// Names besides `localhost` and addresses by which callers without a token may call the
    /// server. Web pages can make a browser send requests to any name they control, and this
    /// stops them.
    pub allowed_hosts: Vec<String>,
    /// Whether `/metrics` needs no token. By default only callers on this machine need none.
    pub metrics_open: Option<bool>,
    /// Largest request body.
    pub body_max_bytes: usize,
    /// Memory for the bodies of all requests at once, half of it for one client; further ones are
    /// refused. Bodies of up to 64 KiB do not count.
    pub bodies_max_bytes: usize,
    /// Memory for the answers of claims at once, half of it for one client; further claims bring
    /// less, or are refused.
    pub claims_max_bytes: usize,
    /// Most messages in one batch.
    pub batch_max: usize,
    /// How long a client may take over its request line and headers, and be idle between requests.
    pub header_timeout_ms: u64,
    /// How long a client may take over a request's body, and take nothing of its answer.
    pub body_timeout_ms: u64,
    /// How long a request may be worked on.
    pub request_timeout_ms: u64,
    /// Longest wait for messages in a claim.
    pub wait_max_ms: u64,
    /// Most claims that wait at once; further ones are answered without waiting.
    pub waits_max: usize,
    /// Most requests worked on at once; further ones are refused.
    pub concurrency_max: usize,
    /// Most open connections, and never more than half of the files the process may open. For
    /// further ones, those that wait for a request are closed.
    pub connections_max: usize,
    /// Most of them from one address (IPv6: one /64), other than this machine's own; further ones are
    /// closed. 0 for no limit.
    pub connections_per_address_max: usize,
    /// How often one client may call.
    pub rate_limit: RateLimit,
    /// How long a login at the dashboard lasts.
    pub session_ttl_ms: u64,
    /// What its sessions are signed with, together with the tokens' hashes. Without it the hashes
    /// are enough to make a session.
    pub session_key: Option<SessionKey>,
    /// Keeps browsers from sending the dashboard's cookie over plain HTTP, as behind a proxy that
    /// ends TLS. A server with HTTPS always does.
    pub dashboard_secure_cookie: bool,
    /// Whether the dashboard shows payloads.
    pub dashboard_payloads: PayloadAccess,
    /// A worker whose claim loop has not run for this long is not ready.
    pub tick_age_max_ms: u64,
    /// How long requests under way may take once the server is stopping.
    pub shutdown_grace_ms: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8787)),
            tokens: Vec::new(),
            apps_have_tokens: false,
            // As many as `database.connections_max` has by default, and one for wake-ups.
            other_files: 17,
            tls_cert: None,
            tls_key: None,
            allow_plain_http: false,
            allow_anonymous: false,
            allowed_hosts: Vec::new(),
            metrics_open: None,
            body_max_bytes: 8 * 1024 * 1024,
            bodies_max_bytes: 64 * 1024 * 1024,
            claims_max_bytes: 64 * 1024 * 1024,
            batch_max: 1_000,
            header_timeout_ms: 15_000,
            body_timeout_ms: 30_000,
            request_timeout_ms: 30_000,
            wait_max_ms: 30_000,
            waits_max: 1_024,
            concurrency_max: 256,
            connections_max: 2_048,
            connections_per_address_max: 512,
            rate_limit: RateLimit::default(),
            session_ttl_ms: 8 * 60 * 60 * 1_000,
            session_key: None,
            dashboard_secure_cookie: false,
            dashboard_payloads: PayloadAccess::default(),
            tick_age_max_ms: 30_000,
            shutdown_grace_ms: 10_000,
        }
    }
}

impl ServerOptions {
    /// Whether callers need a token.
    pub fn needs_token(&self) -> bool {
        !self.tokens.is_empty() || self.apps_have_tokens
    }

    /// Whether it serves HTTPS.
    pub fn has_tls(&self) -> bool {
        self.tls_cert.is_some() || self.tls_key.is_some()
    }

    pub(crate) fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(crate) fn wait_max(&self) -> Duration {
        Duration::from_millis(self.wait_max_ms)
    }

    pub(crate) fn tick_age_max(&self) -> Duration {
        Duration::from_millis(self.tick_age_max_ms)
    }

    pub(crate) fn shutdown_grace(&self) -> Duration {
        Duration::from_millis(self.shutdown_grace_ms)
    }
}

/// An address to listen on, as people write it: `127.0.0.1:8787`, `[::1]:8787`, `localhost:8787`; and
/// `:8787` and `8787`, which are on localhost too: a server on every address must be asked for.
///
/// No other name is looked up: what it leads to could change who can reach the server.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let (name, port) = text.split_once(':').unwrap_or(("", text));
    let address = if name.is_empty() || name.eq_ignore_ascii_case("localhost") {
        // `parse` would accept a sign.
        let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
        let port = port.and_then(|port| port.parse().ok());
        port.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    } else {
        text.parse().ok()
    };
    address.ok_or_else(|| {
        "expected an address and a port, such as 127.0.0.1:8787 or localhost:8787; a port alone is on localhost"
            .to_owned()
    })
}

fn listen_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    listen_address(&text).map_err(de::Error::custom)
}

/// Which visitors of the dashboard see payloads, always with a reason that the audit records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadAccess {
    /// All that see the page of the message.
    #[default]
    Reveal,
    /// Those with the scope `operator`.
    Operators,
    /// None.
    Never,
}

impl PayloadAccess {
    /// Why a visitor sees no payloads, if so.
    pub(crate) fn refusal(self, may_operate: bool) -> Option<&'static str> {
        match self {
            Self::Operators if !may_operate => Some(
                "the payload is shown to the scope operator only (server.dashboard_payloads is \"operators\")",
            ),
            Self::Never => {
                Some("this dashboard shows no payloads (server.dashboard_payloads is \"never\")")
            }
            Self::Reveal | Self::Operators => None,
        }
    }
}

/// One token that is accepted. Only its hash is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Its name; the actor in the audit log.
    pub name: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub hash: TokenHash,
    /// What it is for.
    pub scopes: Vec<Scope>,
}

/// How often one client may call: a token, or an address where none is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Requests a second in the long run; 0 for no limit.
    pub per_second: u32,
    /// Requests at once after a rest.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            per_second: 5_000,
            burst: 10_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_listens_on_addresses_and_on_localhost() {
        for (text, address) in [
            ("127.0.0.1:8787", "127.0.0.1:8787"),
            ("localhost:8787", "127.0.0.1:8787"),
            ("LocalHost:0", "127.0.0.1:0"),
            (":8787", "127.0.0.1:8787"),
            ("8787", "127.0.0.1:8787"),
            ("[::1]:80", "[::1]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            assert_eq!(listen_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for bad in [
            "+8787",
            "99999",
            ":",
            "localhost",
            "localhost:",
            "localhost:99999",
            "shop.example:80",
            "",
        ] {
            let error = listen_address(bad).unwrap_err();
            assert!(error.contains("localhost:8787"), "{bad}: {error}");
        }
        let options: ServerOptions =
            serde_json::from_str(r#"{"listen": "localhost:8787"}"#).unwrap();
        assert_eq!(options.listen, ServerOptions::default().listen);
    }
}
