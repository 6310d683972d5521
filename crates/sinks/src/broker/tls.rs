//! Certificates of brokers.

use std::{fs, path::Path};

use crate::SinkError;

/// Makes ring the process's provider of cryptography, unless another was chosen before.
///
/// The clients of brokers take whatever the process has, and panic without any.
pub(crate) fn ensure_provider() {
    // An error means that one is installed already, which is enough.
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap_or_default();
}

/// The text of a PEM file, if one is named.
pub(crate) fn read_pem(option: &str, path: Option<&Path>) -> Result<Option<String>, SinkError> {
    let Some(path) = path else { return Ok(None) };
    let refuse = |why: String| SinkError::invalid(option, format!("({}) {why}", path.display()));
    let text =
        fs::read_to_string(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    if text.contains("-----BEGIN ") {
        Ok(Some(text))
    } else {
        Err(refuse("is not a PEM file".into()))
    }
}

/// A client's certificate and key, of which neither is of use alone.
pub(crate) fn read_identity(
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Result<Option<(String, String)>, SinkError> {
    let certificate = read_pem("client_cert_file", certificate)?;
    let key = read_pem("client_key_file", key)?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(SinkError::invalid(
            "client_cert_file",
            "needs a `client_key_file`",
        )),
        (None, Some(_)) => Err(SinkError::invalid(
            "client_key_file",
            "needs a `client_cert_file`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_alone_or_no_pem_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = read_identity(None, Some(file.path())).unwrap_err();
        assert!(error.to_string().ends_with("is not a PEM file"), "{error}");
        fs::write(file.path(), "-----BEGIN PRIVATE KEY-----\n").unwrap();
        let error = read_identity(None, Some(file.path())).unwrap_err();
        assert!(error.to_string().contains("needs a `client_cert_file`"));
        let error = read_pem("ca_file", Some(Path::new("/nowhere"))).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}
