//! The HTTP client: what it trusts, whom it asks for addresses, how long it waits.

use std::{path::Path, sync::Arc, time::Duration};

use reqwest::{Client, Proxy, Url, redirect};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::{
    HttpConfig,
    guard::{Allowed, Guard, SharedGuard},
};
use crate::SinkError;

/// Servers close idle connections after about a minute; a request sent just then is uncertain for
/// no good reason. So we close them first.
const IDLE_MAX: Duration = Duration::from_secs(20);

pub(super) fn build(config: &HttpConfig, allowed: Allowed) -> Result<Client, SinkError> {
    let guard = Arc::new(Guard::new(allowed.clone()));
    let builder = Client::builder()
        .tls_backend_preconfigured(tls(config.ca_file.as_deref())?)
        .dns_resolver(SharedGuard(guard))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .https_only(config.https_only)
        .connect_timeout(Duration::from_millis(config.connect_timeout_ms))
        .pool_idle_timeout(IDLE_MAX)
        .user_agent(concat!("consign/", env!("CARGO_PKG_VERSION")));
    // Without this, variables of the environment would decide where payloads go.
    let builder = match &config.proxy {
        None => builder.no_proxy(),
        Some(secret) => {
            let refuse = |_| SinkError::invalid("proxy", "is not a URL such as http://host:3128");
            let url: Url = secret.reveal("proxy")?.parse().map_err(refuse)?;
            allowed.check_literal("proxy", &url)?;
            let proxy = Proxy::all(url);
            builder.proxy(proxy.map_err(|_| SinkError::invalid("proxy", "cannot be used"))?)
        }
    };
    let reason = |error: reqwest::Error| format!("makes no client: {}", error.without_url());
    builder
        .build()
        .map_err(|error| SinkError::invalid("url", reason(error)))
}

fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, SinkError> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = ca_file {
        let refuse = |why: String| SinkError::invalid("ca_file", why);
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| refuse(format!("({}) cannot be read: {error}", path.display())))?;
        if certificates.is_empty() {
            return Err(refuse(format!("({}) holds no certificate", path.display())));
        }
        for certificate in certificates {
            let added = roots.add(certificate);
            added.map_err(|error| refuse(format!("({}): {error}", path.display())))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("invariant: ring speaks the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
