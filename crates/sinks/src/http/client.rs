//! The HTTP client: what it trusts, whom it asks for addresses, how long it waits.

use std::time::Duration;

use consign_outbound::Allowed;
use reqwest::{Client, Proxy, Url};

use super::HttpConfig;
use crate::SinkError;

pub(super) fn build(config: &HttpConfig, allowed: Allowed) -> Result<Client, SinkError> {
    let builder = consign_outbound::client(config.ca_file.as_deref())
        .map_err(|error| SinkError::invalid("ca_file", error.to_string()))?
        .dns_resolver(allowed.clone().resolver())
        .https_only(config.https_only)
        .connect_timeout(Duration::from_millis(config.connect_timeout_ms));
    let builder = match &config.proxy {
        None => builder,
        Some(secret) => {
            let refuse = |_| SinkError::invalid("proxy", "is not a URL such as http://host:3128");
            let url: Url = secret.reveal("proxy")?.parse().map_err(refuse)?;
            let checked = allowed.check_literal(&url);
            checked.map_err(|why| SinkError::invalid("proxy", why))?;
            let proxy = Proxy::all(url);
            builder.proxy(proxy.map_err(|_| SinkError::invalid("proxy", "cannot be used"))?)
        }
    };
    let reason = |error: reqwest::Error| format!("makes no client: {}", error.without_url());
    builder
        .build()
        .map_err(|error| SinkError::invalid("url", reason(error)))
}
