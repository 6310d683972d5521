//! The HTTP client, and a body that knows whether it has left.

use std::{
    convert::Infallible,
    error::Error as StdError,
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use consign_kernel::{Error, Result};
use http_body::{Body, Frame, SizeHint};
use reqwest::{Client, redirect};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::options::PaymentsOptions;

/// Servers close idle connections after about a minute, and a payment sent just then would be
/// uncertain for no good reason. So we close them first.
const IDLE_MAX: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn build(options: &PaymentsOptions) -> Result<Client> {
    let builder = Client::builder()
        .tls_backend_preconfigured(tls(options.rail_ca_file.as_deref())?)
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_MAX)
        .user_agent(concat!("consign/", env!("CARGO_PKG_VERSION")));
    builder.build().map_err(|error| {
        let why = format!("makes no client: {}", error.without_url());
        Error::invalid("payments.rail_url", why)
    })
}

fn tls(ca_file: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = ca_file {
        let refuse = |why: String| Error::invalid("payments.rail_ca_file", why);
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
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

/// What lies below an error: the layers above only repeat that something failed.
pub(super) fn causes(error: &dyn StdError) -> String {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    match causes.is_empty() {
        true => error.to_string(),
        false => causes.join(": "),
    }
}

/// Whether a request's body has left our hands. As long as it has not, the rail cannot have the
/// payment; once it has, it may.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<AtomicBool>);

impl Begun {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// All of a body in one frame.
#[derive(Debug)]
pub(super) struct WatchedBody {
    bytes: Bytes,
    begun: Begun,
}

impl WatchedBody {
    pub(super) fn new(bytes: Vec<u8>) -> (Self, Begun) {
        // An empty body is never asked for, so it could not tell.
        assert!(!bytes.is_empty(), "invariant: JSON is never empty");
        let begun = Begun::default();
        let body = Self {
            bytes: bytes.into(),
            begun: begun.clone(),
        };
        (body, begun)
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        self.begun.0.store(true, Ordering::SeqCst);
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
