//! The HTTP client of the exporter.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;

/// The exporter's thread has no runtime, so requests run on the program's.
#[derive(Clone, Debug)]
pub(super) struct Client {
    client: reqwest::Client,
    runtime: Handle,
}

impl Client {
    /// Needs a runtime.
    pub(super) fn new() -> Result<Self, String> {
        let builder = consign_outbound::client(None).map_err(|error| error.to_string())?;
        let client = consign_outbound::build(builder.timeout(Duration::from_secs(10)))?;
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
