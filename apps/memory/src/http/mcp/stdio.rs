//! The protocol on standard input and output, for clients that start the server themselves.

use std::{borrow::Cow, fmt, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, Service,
    model::{ClientNotification, ClientRequest, ProtocolVersion, ServerConfig, ServerResult},
    service::{NotificationContext, RequestContext},
    transport::stdio_pipes,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream};

use super::{
    argument_fault, errors,
    handler::{FAULT, Tools},
};
use crate::{Caller, Correlation, MemoryService, http::agent::Agent};

/// Why serving on standard input and output failed.
#[derive(Debug)]
pub struct StdioError(String);

impl fmt::Display for StdioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StdioError {}

/// Serves one client on standard input and output until it disconnects.
///
/// The local user has all rights; with an actor, calls act only as that user.
pub async fn serve_stdio(
    service: Arc<MemoryService>,
    actor: Option<String>,
) -> Result<(), StdioError> {
    let agent = Agent {
        caller: Caller {
            is_authenticated: actor.is_some(),
            actor,
            ..Caller::anonymous()
        },
        may_write: true,
    };
    let tools = Complete(Tools::for_one(service, agent));
    let (reader, writer) = stdio_pipes();
    let running = match rmcp::serve_server(tools, (checked(reader), writer)).await {
        Ok(running) => running,
        // The client disconnected before its first message.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError(error.to_string())),
    };
    let ended = running.waiting().await;
    ended.map_err(|error| StdioError(error.to_string()))?;
    Ok(())
}

/// The same lines; malformed arguments, which the SDK would not detect, are marked.
fn checked(reader: impl AsyncRead + Send + Unpin + 'static) -> DuplexStream {
    let (mut into, from) = tokio::io::duplex(64 << 10);
    tokio::spawn(async move {
        let (mut reader, mut line) = (BufReader::new(reader), Vec::new());
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = marked(&line).map_or(Cow::Borrowed(line.as_slice()), Cow::Owned);
            if into.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    from
}

/// A line with the problem of its arguments; `None`: valid, or the SDK rejects it.
fn marked(line: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(line).ok()?;
    // A request with a repeated name has no reliable arguments.
    let fault = match argument_fault(text) {
        Ok(fault) => json!(fault?),
        Err(why) if why.starts_with("duplicate field") => json!({"place": "", "why": why}),
        Err(_) => return None,
    };
    let mut message: Value = serde_json::from_str(text).ok()?;
    let params = message.get_mut("params")?.as_object_mut()?;
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    meta.as_object_mut()?.insert(FAULT.to_owned(), fault);
    let mut line = serde_json::to_vec(&message).ok()?;
    line.push(b'\n');
    Some(line)
}

/// The tools, with the same errors as over HTTP.
struct Complete(Tools);

impl Service<RoleServer> for Complete {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let method = request.method().to_owned();
        let answer = Service::handle_request(&self.0, request, context).await;
        answer.map_err(|error| errors::completed(error, &method, &Correlation::new()))
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Service::handle_notification(&self.0, notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_whose_arguments_would_change_are_marked() {
        let call = |arguments: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
            )
        };
        for arguments in [r#"{"n":0.12345678901234567890}"#, r#"{"n":1,"n":2}"#] {
            let line = marked(call(arguments).as_bytes()).unwrap();
            assert_eq!(line.last(), Some(&b'\n'));
            let message: Value = serde_json::from_slice(&line).unwrap();
            let fault = &message["params"]["_meta"][FAULT];
            assert_eq!(fault["place"], "n", "{message}");
        }
        let twice =
            r#"{"jsonrpc":"2.0","id":1,"params":{"arguments":{"a":1},"arguments":{"a":2}}}"#;
        assert!(marked(twice.as_bytes()).is_some());
        for plain in [call(r#"{"n":1.5}"#).as_str(), "{", "", "[]"] {
            assert_eq!(marked(plain.as_bytes()), None, "{plain}");
        }
    }
}
