//! Tokens of the gateway.

use consign_kernel::Result;
use serde::Deserialize;

use super::{MemoryOptions, Secret, refuse};
use crate::Caller;

/// Minimum length of a token. Shorter ones can be guessed despite a rate limit.
const TOKEN_BYTES_MIN: usize = 16;

/// A configured token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayToken {
    /// The token.
    pub token: Secret,
    /// The user to whom it is bound: its holder writes and reads only as this user.
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
    /// The configured tokens. None: the gateway requires no token.
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
            // The parser's message would show the tokens.
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
        let is_short = |token: &Secret| token.reveal().len() < TOKEN_BYTES_MIN;
        if let Some(short) = tokens.iter().find(|token| is_short(&token.token)) {
            let key = match &self.gateway_auth_token {
                Some(one) if *one == short.token => "gateway_auth_token",
                _ => KEY,
            };
            let why = format!(
                "a token must have at least {TOKEN_BYTES_MIN} bytes; `openssl rand -hex 16` prints one"
            );
            return Err(refuse(key, why));
        }
        let is_repeated = |(n, token): (usize, &GatewayToken)| {
            tokens[..n].iter().any(|other| other.token == token.token)
        };
        if tokens.iter().enumerate().any(is_repeated) {
            return Err(refuse(KEY, "contains the same token twice"));
        }
        let is_nobody = |token: &GatewayToken| token.actor.as_ref().is_some_and(String::is_empty);
        if tokens.iter().any(is_nobody) {
            return Err(refuse(KEY, "binds a token to an empty name"));
        }
        Ok(tokens)
    }
}

impl GatewayToken {
    /// The caller of this bearer token; `None`: unknown token.
    ///
    /// Every token is compared, so that the time does not reveal which one matches.
    pub fn caller(tokens: &[Self], bearer: &str) -> Option<Caller> {
        let known = tokens.iter().map(|token| token.token.matches(bearer));
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
    fn tokens_are_texts_or_bound_to_an_actor() {
        let options = MemoryOptions {
            gateway_auth_token: Some(Secret::new("everybodys-0123456789ab")),
            gateway_auth_tokens_json: Some(Secret::new(
                r#"["plain-0123456789ab", {"token": "hers-0123456789ab", "actor": "alice"}, {"token": "root-0123456789ab", "admin": true}]"#,
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
            ("everybodys-0123456789ab", Some((None, false))),
            ("plain-0123456789ab", Some((None, false))),
            ("hers-0123456789ab", Some((Some("alice".to_owned()), false))),
            ("root-0123456789ab", Some((None, true))),
            ("", None),
            ("Hers-0123456789ab", None),
        ];
        for (bearer, expected) in table {
            assert_eq!(who(bearer), expected, "{bearer}");
        }
    }

    #[test]
    fn what_is_no_list_of_tokens_is_refused_and_not_shown() {
        let bad = [
            "tulip-in-the-garden",
            r#"{"token": "tulip-in-the-garden"}"#,
            r#"["tulip-in-the-garden", 1]"#,
            r#"[{"token": "tulip-in-the-garden", "user": "x"}]"#,
            r#"["tulip-in-the-garden", ""]"#,
            r#"["tulip-in-the-garden", "short-of-it-by1"]"#,
            r#"["tulip-in-the-garden", {"token": "tulip-in-the-garden", "actor": "ada"}]"#,
            r#"[{"token": "tulip-in-the-garden", "actor": ""}]"#,
        ];
        for list in bad {
            let options = MemoryOptions {
                gateway_auth_tokens_json: Some(Secret::new(list)),
                ..MemoryOptions::default()
            };
            let refusal = options.validate().unwrap_err().to_string();
            assert!(!refusal.contains("tulip-in-the-garden"), "{refusal}");
        }
    }
}
