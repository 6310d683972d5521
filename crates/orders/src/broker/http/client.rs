//! The HTTP client: what it trusts and how long it waits. It never retries and never follows a
//! redirect: an order goes where the configuration says, once.

use std::{path::Path, sync::Arc, time::Duration};

use consign_kernel::{Error, Result};
use reqwest::{Client, Url, redirect};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::OrdersOptions;

/// Servers close idle connections after about a minute; an order sent just then would be uncertain
/// for no good reason. So we close them first.
const IDLE_MAX: Duration = Duration::from_secs(20);

pub(super) fn build(options: &OrdersOptions) -> Result<Client> {
    Client::builder()
        .tls_backend_preconfigured(tls(options.broker_ca_file.as_deref())?)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        // Variables of the environment must not decide where orders go.
        .no_proxy()
        .pool_idle_timeout(IDLE_MAX)
        .user_agent(concat!("consign/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| {
            refuse(
                "broker_url",
                format!("makes no client: {}", error.without_url()),
            )
        })
}

fn tls(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = ca_file {
        let refuse = |why: String| refuse("broker_ca_file", format!("({}) {why}", path.display()));
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
            .map_err(|error| refuse(format!("cannot be read: {error}")))?;
        if certificates.is_empty() {
            return Err(refuse("holds no certificate".into()));
        }
        for certificate in certificates {
            let added = roots.add(certificate);
            added.map_err(|error| refuse(format!("cannot be trusted: {error}")))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("invariant: ring speaks the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
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
