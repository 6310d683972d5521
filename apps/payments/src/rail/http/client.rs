//! The HTTP client.

use std::time::Duration;

use consign_kernel::{Error, Result};
use reqwest::Client;

use crate::options::PaymentsOptions;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn build(options: &PaymentsOptions) -> Result<Client> {
    let builder = consign_outbound::client(options.rail_ca_file.as_deref())
        .map_err(|error| Error::invalid("payments.rail_ca_file", error.to_string()))?
        .connect_timeout(CONNECT_TIMEOUT);
    builder.build().map_err(|error| {
        let why = format!("makes no client: {}", error.without_url());
        Error::invalid("payments.rail_url", why)
    })
}
