//! The HTTP client: what it trusts and how long it keeps connections.

use std::{path::Path, sync::Arc, time::Duration};

use reqwest::{Client, ClientBuilder, redirect};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Servers close idle connections after about a minute; a request sent just then is uncertain for
/// no good reason. So we close them first.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// What is wrong with a file of certificates: reads on after the setting's name.
#[derive(Debug, thiserror::Error)]
#[error("({path}) {why}")]
pub struct CaFileError {
    path: String,
    why: String,
}

/// A client that never retries and never follows a redirect: a request goes where its caller sends it,
/// once. Nor do variables of the environment send it elsewhere; only the caller can add a proxy.
///
/// Trusts the system's certificates, and those of a file in PEM.
pub fn client(ca_file: Option<&Path>) -> Result<ClientBuilder, CaFileError> {
    Ok(Client::builder()
        .tls_backend_preconfigured(tls(ca_file)?)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .no_proxy()
        .pool_idle_timeout(IDLE_MAX)
        .user_agent(concat!("consign/", env!("CARGO_PKG_VERSION"))))
}

/// The client of a builder. The error continues after the setting's name and holds no address.
pub fn build(builder: ClientBuilder) -> Result<Client, String> {
    let built = builder.build();
    built.map_err(|error| format!("cannot create the HTTP client: {}", error.without_url()))
}

fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, CaFileError> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = ca_file {
        let refuse = |why: String| CaFileError {
            path: path.display().to_string(),
            why,
        };
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
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
        .expect("invariant: ring supports the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
