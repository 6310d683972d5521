//! The HTTP client: certificates, name resolution, timeouts.

use std::time::Duration;

use consign_outbound::Exceptions;
use reqwest::{Client, Proxy, Url};

use super::HttpConfig;
use crate::SinkError;

pub(super) fn build(config: &HttpConfig, allowed: Exceptions) -> Result<Client, SinkError> {
    let builder = consign_outbound::client(config.ca_file.as_deref())
        .map_err(|error| SinkError::invalid("ca_file", error.to_string()))?
        .dns_resolver(allowed.clone().resolver())
        .https_only(config.https_only)
        .connect_timeout(Duration::from_millis(config.connect_timeout_ms));
    let builder = match &config.proxy {
        None => builder,
        Some(secret) => {
            let refuse = |_| SinkError::invalid("proxy", "is not a URL such as http://host:3128");
            let url: Url = secret.read("proxy")?.reveal().parse().map_err(refuse)?;
            let checked = allowed.check_literal(&url);
            checked.map_err(|why| SinkError::invalid("proxy", why))?;
            let proxy = Proxy::all(url);
            builder.proxy(proxy.map_err(|_| SinkError::invalid("proxy", "cannot be used"))?)
        }
    };
    consign_outbound::build(builder).map_err(|why| SinkError::invalid("url", why))
}
