//! The environment of child processes. Only these variables are passed on, because others may hold
//! tokens and passwords.

use std::ffi::OsString;

/// Variables for finding programs and proxies.
const HANDED_ON: [&str; 15] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSH_AUTH_SOCK",
    "USER",
    "LOGNAME",
];

/// The variables passed to every program, as far as they are set.
pub(crate) fn handed_on() -> impl Iterator<Item = (&'static str, OsString)> {
    HANDED_ON
        .into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)))
}
