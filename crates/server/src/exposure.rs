//! Rejects options that would expose the server by accident.

use std::collections::{BTreeMap, BTreeSet};

use crate::{options::ServerOptions, token::Token};

/// Why a server may not be started as configured.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExposureError {
    /// Others could reach it, and it needs no token.
    #[error(
        "server.listen = \"{listen}\" can be reached from other machines, and there are no \
         tokens: every caller could use the whole API. Add server.tokens (`consign token new` \
         makes one), listen on 127.0.0.1, or set server.allow_anonymous = true to accept that"
    )]
    WithoutTokens {
        /// Where it would listen.
        listen: String,
    },
    /// Others could reach it, and everything would travel in the clear.
    #[error(
        "server.listen = \"{listen}\" can be reached from other machines over plain HTTP: tokens \
         and payloads could be read on the way. Set server.tls_cert and server.tls_key, or set \
         server.allow_plain_http = true if a proxy in front terminates TLS"
    )]
    InTheClear {
        /// Where it would listen.
        listen: String,
    },
    /// A token entry that cannot work.
    #[error("server.tokens: {why}")]
    BadToken {
        /// What is wrong.
        why: String,
    },
    /// Certificate without key, or the other way round.
    #[error("server.{missing} is missing: HTTPS needs both server.tls_cert and server.tls_key")]
    HalfTls {
        /// The key that is missing.
        missing: &'static str,
    },
    /// A limit of zero would refuse everything.
    #[error("server.{key} must be at least 1")]
    ZeroLimit {
        /// The key.
        key: &'static str,
    },
}

/// Rejects a server that others could reach without tokens or without TLS, unless the options
/// permit it; and options that cannot work.
pub fn check_exposure(options: &ServerOptions) -> Result<(), ExposureError> {
    check_tokens(options)?;
    check_limits(options)?;
    match (&options.tls_cert, &options.tls_key) {
        (Some(_), None) => return Err(ExposureError::HalfTls { missing: "tls_key" }),
        (None, Some(_)) => {
            return Err(ExposureError::HalfTls {
                missing: "tls_cert",
            });
        }
        _ => {}
    }
    if options.listen.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let listen = options.listen.to_string();
    if !options.needs_token() && !options.allow_anonymous {
        return Err(ExposureError::WithoutTokens { listen });
    }
    if !options.has_tls() && !options.allow_plain_http {
        return Err(ExposureError::InTheClear { listen });
    }
    Ok(())
}

fn check_tokens(options: &ServerOptions) -> Result<(), ExposureError> {
    let bad = |why: String| Err(ExposureError::BadToken { why });
    let mut names = BTreeSet::new();
    let mut hashes = BTreeMap::new();
    for entry in &options.tokens {
        let name = &entry.name;
        if entry.hash == Token::new("").hash() {
            return bad(format!("the hash of {name:?} is that of the empty token"));
        }
        // The audit's actor has room for 256 bytes, the caller's own word included.
        // Apps join a client's name and its key by a slash.
        let is_plain = !name.contains(|c: char| c.is_control() || c == '/');
        if name.trim().is_empty() || name.len() > 100 || !is_plain {
            return bad(format!(
                "name {name:?}: must be 1 to 100 printable bytes without `/`"
            ));
        }
        if !names.insert(name) {
            return bad(format!(
                "two are named {name:?}; the audit cannot distinguish them"
            ));
        }
        if let Some(other) = hashes.insert(entry.hash.as_bytes(), name) {
            return bad(format!(
                "{other:?} and {name:?} have the same hash; make a token for each with `consign token new`"
            ));
        }
        if entry.scopes.is_empty() {
            return bad(format!(
                "{name:?} has no scopes; give it some of producer, worker, operator, auditor"
            ));
        }
    }
    Ok(())
}

fn check_limits(options: &ServerOptions) -> Result<(), ExposureError> {
    let limits = [
        ("body_max_bytes", options.body_max_bytes as u64),
        ("bodies_max_bytes", options.bodies_max_bytes as u64),
        ("claims_max_bytes", options.claims_max_bytes as u64),
        ("batch_max", options.batch_max as u64),
        ("header_timeout_ms", options.header_timeout_ms),
        ("body_timeout_ms", options.body_timeout_ms),
        ("request_timeout_ms", options.request_timeout_ms),
        ("concurrency_max", options.concurrency_max as u64),
        ("connections_max", options.connections_max as u64),
    ];
    match limits.into_iter().find(|(_, limit)| *limit == 0) {
        Some((key, _)) => Err(ExposureError::ZeroLimit { key }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scope, TokenEntry};

    fn reachable() -> ServerOptions {
        ServerOptions {
            listen: "0.0.0.0:8787".parse().unwrap(),
            ..ServerOptions::default()
        }
    }

    fn entry(name: &str) -> TokenEntry {
        TokenEntry {
            name: name.into(),
            hash: Token::new(format!("secret of {name}")).hash(),
            scopes: vec![Scope::Producer],
        }
    }

    #[test]
    fn loopback_needs_nothing() {
        for listen in [
            "127.0.0.1:0",
            "127.8.9.1:1",
            "[::1]:0",
            "[::ffff:127.0.0.1]:0",
        ] {
            let options = ServerOptions {
                listen: listen.parse().unwrap(),
                ..ServerOptions::default()
            };
            assert_eq!(check_exposure(&options), Ok(()), "{listen}");
        }
    }

    #[test]
    fn an_exposed_server_names_the_setting_to_change() {
        let without = check_exposure(&reachable()).unwrap_err().to_string();
        assert!(
            without.contains("server.allow_anonymous = true"),
            "{without}"
        );
        let clear = ServerOptions {
            tokens: vec![entry("shop")],
            ..reachable()
        };
        let clear = check_exposure(&clear).unwrap_err().to_string();
        assert!(clear.contains("server.allow_plain_http = true"), "{clear}");
        let anonymous = ServerOptions {
            allow_anonymous: true,
            ..reachable()
        };
        assert!(check_exposure(&anonymous).is_err(), "still in the clear");
    }

    #[test]
    fn an_exposed_server_starts_with_explicit_settings() {
        let tls = ServerOptions {
            tokens: vec![entry("shop")],
            tls_cert: Some("cert.pem".into()),
            tls_key: Some("key.pem".into()),
            ..reachable()
        };
        let proxied = ServerOptions {
            tokens: vec![entry("shop")],
            allow_plain_http: true,
            ..reachable()
        };
        let open = ServerOptions {
            allow_anonymous: true,
            allow_plain_http: true,
            ..reachable()
        };
        let apps = ServerOptions {
            apps_have_tokens: true,
            allow_plain_http: true,
            ..reachable()
        };
        for options in [tls, proxied, open, apps] {
            assert_eq!(check_exposure(&options), Ok(()), "{options:?}");
        }
    }

    #[test]
    fn rejects_an_empty_token_and_a_shared_one() {
        let with = |hash: &Token| TokenEntry {
            hash: hash.hash(),
            ..entry("ci")
        };
        for (other, why) in [
            (with(&Token::new("")), "empty token"),
            (with(&Token::new("secret of shop")), "same hash"),
        ] {
            let options = ServerOptions {
                tokens: vec![entry("shop"), other],
                ..ServerOptions::default()
            };
            let refusal = check_exposure(&options).unwrap_err().to_string();
            assert!(refusal.contains(why), "{refusal}");
        }
    }

    #[test]
    fn tokens_limits_and_certificates_that_cannot_work_are_refused() {
        let half = ServerOptions {
            tls_cert: Some("cert.pem".into()),
            ..ServerOptions::default()
        };
        let twins = ServerOptions {
            tokens: vec![entry("shop"), entry("shop")],
            ..ServerOptions::default()
        };
        let idle = ServerOptions {
            tokens: vec![TokenEntry {
                scopes: vec![],
                ..entry("shop")
            }],
            ..ServerOptions::default()
        };
        let slashed = ServerOptions {
            tokens: vec![entry("shop/eu")],
            ..ServerOptions::default()
        };
        let nothing = ServerOptions {
            concurrency_max: 0,
            ..ServerOptions::default()
        };
        for options in [half, twins, idle, slashed, nothing] {
            assert!(check_exposure(&options).is_err(), "{options:?}");
        }
    }
}
