//! Web pages that call: where no token is needed, only pages of this machine may.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};

use super::GateState;
use crate::{
    options::ServerOptions,
    problem::{Problem, codes},
};

impl GateState {
    /// Whether a web page from there may call. Where no token is needed, any page could make the
    /// browser of a user on this machine do it; so only pages from this machine may.
    pub fn admits_origin(&self, headers: &HeaderMap) -> bool {
        if self.options.needs_token() {
            return true;
        }
        let site = headers.get("sec-fetch-site");
        match headers.get(header::ORIGIN) {
            Some(origin) => is_own(&self.options, origin),
            // A page that hides its origin; programs send neither header.
            None => site.is_none_or(|site| site == "same-origin" || site == "none"),
        }
    }

    /// Rejects a call of a web page from elsewhere.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.admits_origin(headers) {
            return Ok(());
        }
        let detail = "without tokens, only web pages of this machine may call";
        Err(Problem::new(codes::ORIGIN_NOT_ALLOWED, detail))
    }
}

fn is_own(options: &ServerOptions, origin: &HeaderValue) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let Some((_, authority)) = origin.split_once("://") else {
        return false;
    };
    let name = super::access::host_name(authority);
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    address.is_ok_and(|address| address.to_canonical().is_loopback())
        || name.eq_ignore_ascii_case("localhost")
        || options
            .allowed_hosts
            .iter()
            .any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_pages_of_this_machine() {
        let options = ServerOptions {
            allowed_hosts: vec!["desk.example".into()],
            ..ServerOptions::default()
        };
        let table = [
            ("http://localhost:6274", true),
            ("http://127.0.0.1", true),
            ("https://[::1]:1", true),
            ("http://desk.example:3000", true),
            ("http://192.0.2.1", false),
            ("http://localhost.evil.example", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
        ];
        for (origin, expected) in table {
            let origin = HeaderValue::from_str(origin).unwrap();
            assert_eq!(is_own(&options, &origin), expected, "{origin:?}");
        }
    }
}
