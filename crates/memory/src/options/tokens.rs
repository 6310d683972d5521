//! Tokens of the gateway, and who they are.

use consign_kernel::Result;
use serde::Deserialize;

use super::{MemoryOptions, Secret, refuse};
use crate::Caller;

/// A token that the gateway knows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayToken {
    /// The token.
    pub token: Secret,
    /// Who holds it, if it is one person's: they write and read as nobody else.
    pub actor: Option<String>,
    /// Whether it may change settings.
    #[serde(default)]
    pub admin: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Plain(Secret),
    Bound(GatewayToken),
}

impl MemoryOptions {
    /// The tokens that the gateway knows. None at all: it does not ask for any.
    pub fn tokens(&self) -> Result<Vec<GatewayToken>> {
        const KEY: &str = "gateway_auth_tokens_json";
        let plain = |token| GatewayToken {
            token,
            actor: None,
            admin: false,
        };
        let mut tokens = Vec::new();
        let one = self.gateway_auth_token.clone();
        tokens.extend(one.filter(|token| !token.is_empty()).map(plain));
        let list = self.gateway_auth_tokens_json.as_ref();
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            // The reason would show what it could not read.
            let entries: Vec<Entry> = serde_json::from_str(list.reveal()).map_err(|_| {
                let why =
                    "must be a JSON list of tokens: texts, or {\"token\", \"actor\", \"admin\"}";
                refuse(KEY, why)
            })?;
            tokens.extend(entries.into_iter().map(|entry| match entry {
                Entry::Plain(token) => plain(token),
                Entry::Bound(token) => token,
            }));
        }
        if tokens.iter().any(|token| token.token.is_empty()) {
            return Err(refuse(KEY, "holds an empty token"));
        }
        let is_nobody = |token: &GatewayToken| token.actor.as_ref().is_some_and(String::is_empty);
        if tokens.iter().any(is_nobody) {
            return Err(refuse(KEY, "binds a token to an empty name"));
        }
        Ok(tokens)
    }
}

impl GatewayToken {
    /// Who calls with this bearer token; none: nobody who is known.
    ///
    /// Every token is compared, so that the time tells nothing about which one fits.
    pub fn caller(tokens: &[Self], bearer: &str) -> Option<Caller> {
        let known = tokens.iter().map(|token| token.token.is_known_to(bearer));
        let known: Vec<bool> = known.collect();
        let index = known.into_iter().position(|is_known| is_known)?;
        let token = &tokens[index];
        Some(Caller {
            actor: token.actor.clone(),
            is_authenticated: true,
            is_admin: token.admin,
            correlation_id: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_texts_or_bound_to_somebody() {
        let options = MemoryOptions {
            gateway_auth_token: Some(Secret::new("everybody")),
            gateway_auth_tokens_json: Some(Secret::new(
                r#"["plain", {"token": "hers", "actor": "alice"}, {"token": "root", "admin": true}]"#,
            )),
            ..MemoryOptions::default()
        };
        let tokens = options.tokens().unwrap();
        let who = |bearer| {
            let caller = GatewayToken::caller(&tokens, bearer)?;
            assert!(caller.is_authenticated);
            Some((caller.actor, caller.is_admin))
        };
        let table = [
            ("everybody", Some((None, false))),
            ("plain", Some((None, false))),
            ("hers", Some((Some("alice".to_owned()), false))),
            ("root", Some((None, true))),
            ("", None),
            ("Hers", None),
        ];
        for (bearer, expected) in table {
            assert_eq!(who(bearer), expected, "{bearer}");
        }
    }

    #[test]
    fn what_is_no_list_of_tokens_is_refused_and_not_shown() {
        let bad = [
            "tulip",
            r#"{"token": "tulip"}"#,
            r#"["tulip", 1]"#,
            r#"[{"token": "tulip", "user": "x"}]"#,
            r#"["tulip", ""]"#,
            r#"[{"token": "tulip", "actor": ""}]"#,
        ];
        for list in bad {
            let options = MemoryOptions {
                gateway_auth_tokens_json: Some(Secret::new(list)),
                ..MemoryOptions::default()
            };
            let refusal = options.validate().unwrap_err().to_string();
            assert!(!refusal.contains("tulip"), "{refusal}");
        }
    }
}
