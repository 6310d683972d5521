//! The HTTP client of the exporter.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::runtime::Handle;

/// The exporter's thread has no runtime, so requests run on the program's.
#[derive(Clone, Debug)]
pub(super) struct Client {
    client: reqwest::Client,
    runtime: Handle,
}

impl Client {
    /// Needs a runtime.
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("invariant: ring speaks the default versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(10))
            .build()?;
        let runtime = Handle::current();
        Ok(Self { client, runtime })
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let mut answer = self.client.execute(request).await?;
        let (status, headers) = (answer.status(), std::mem::take(answer.headers_mut()));
        let mut response = Response::new(answer.bytes().await?);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.runtime.spawn(self.clone().send(request)).await?
    }
}
