//! Https: who is trusted.

use std::{path::PathBuf, sync::Arc};

use consign_kernel::Outcome;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    fixture::{delivery, http_sink, try_sink},
    server::{Server, status},
};

fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", name]
        .iter()
        .collect()
}

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(data("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_if_named_and_only_then() {
    let server = Server::start_tls(acceptor(), |_, _| status(200)).await;
    let url = format!("https://{}/hook", server.address);
    let verdict = http_sink(&url, "").await.deliver(&delivery()).await;
    assert_eq!(verdict.outcome, Outcome::Retry, "{verdict:?}");
    assert_eq!(verdict.code.as_deref(), Some("tls_failed"), "{verdict:?}");
    assert_eq!(server.requests().len(), 0);
    let options = format!(
        "https_only = true\nca_file = \"{}\"",
        data("ca.pem").display()
    );
    let verdict = http_sink(&url, &options).await.deliver(&delivery()).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    assert_eq!(server.request().line, "POST /hook HTTP/1.1");
}

#[tokio::test]
async fn a_file_without_certificates_is_refused() {
    for file in ["server.key", "README.md", "missing.pem"] {
        let text = format!(
            "kind = \"http\"\nurl = \"https://hooks.example\"\nca_file = \"{}\"",
            data(file).display()
        );
        let error = try_sink(&text).await.unwrap_err().to_string();
        assert!(error.starts_with("sink option `ca_file` ("), "{error}");
    }
}
