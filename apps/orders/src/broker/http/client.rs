//! The HTTP client, and the addresses it is given.

use consign_kernel::{Error, Result};
use reqwest::{Client, Url};

use crate::OrdersOptions;

pub(super) fn build(options: &OrdersOptions) -> Result<Client> {
    let builder = consign_outbound::client(options.broker_ca_file.as_deref())
        .map_err(|error| refuse("broker_ca_file", error.to_string()))?;
    builder.build().map_err(|error| {
        let why = format!("makes no client: {}", error.without_url());
        refuse("broker_url", why)
    })
}

/// Reads an address. Never names it: it may hold secrets.
pub(super) fn url(option: &str, text: &str) -> Result<Url> {
    let url: Url = text
        .parse()
        .map_err(|_| refuse(option, "is not a URL such as https://host/orders".into()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse(option, "must start with https:// or http://".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "must not hold a user or password; use broker_api_key and broker_api_secret";
        return Err(refuse(option, why.into()));
    }
    Ok(url)
}

pub(super) fn refuse(option: &str, why: String) -> Error {
    Error::invalid(format!("orders.{option}"), why)
}
