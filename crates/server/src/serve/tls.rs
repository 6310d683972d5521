//! HTTPS from a certificate and a key in PEM files.

use std::{fmt, io, path::Path, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
    server::TlsStream,
};

use super::StartError;
use crate::options::ServerOptions;

/// Turns TCP connections into TLS connections.
#[derive(Clone)]
pub(super) struct Acceptor(TlsAcceptor);

impl Acceptor {
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// The acceptor for the options; none for plain HTTP.
pub(super) fn acceptor(options: &ServerOptions) -> Result<Option<Acceptor>, StartError> {
    let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) else {
        return Ok(None);
    };
    let chain = chain(cert)?;
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|error| refuse("tls_key", key, error))?;
    // The provider is named, so that this works whether or not the process has chosen a default.
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse("tls_cert", cert, error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| refuse("tls_cert", cert, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Acceptor(TlsAcceptor::from(Arc::new(config)))))
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|error| refuse("tls_cert", path, error))?
        .collect();
    let chain = chain.map_err(|error| refuse("tls_cert", path, error))?;
    if chain.is_empty() {
        return Err(refuse("tls_cert", path, "holds no certificate"));
    }
    Ok(chain)
}

fn refuse(setting: &'static str, path: &Path, why: impl fmt::Display) -> StartError {
    StartError::Tls {
        setting,
        path: path.to_owned(),
        why: why.to_string(),
    }
}
