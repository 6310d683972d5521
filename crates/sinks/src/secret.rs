//! Where a sink's secrets are found.

use std::path::PathBuf;

use consign_redact::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::SinkError;

/// A secret, or the place where it is found.
///
/// In the configuration it is text (the value itself), `{ env = "NAME" }` or `{ file = "path" }`.
/// An option `password` may also be written `password_env = "NAME"` or `password_file = "path"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a secret is text, { env = \"NAME\" } or { file = \"path\" }"
)]
pub enum SecretSource {
    /// The value itself.
    Value(Secret),
    /// In a variable of the environment.
    Env(InEnvironment),
    /// In a file; blanks and line ends around it do not count.
    File(InFile),
}

/// The variable that holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InEnvironment {
    /// Its name.
    pub env: String,
}

/// The file that holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InFile {
    /// Its path.
    pub file: PathBuf,
}

impl SecretSource {
    /// The secret, from wherever it is. `option` is named in errors, the value never.
    pub fn read(&self, option: &str) -> Result<Secret, SinkError> {
        let secret = match self {
            Self::Value(secret) => Ok(secret.clone()),
            Self::Env(InEnvironment { env }) => Secret::from_env(env),
            Self::File(InFile { file }) => Secret::from_file(file),
        };
        secret.map_err(|reason| SinkError::Secret {
            option: option.to_owned(),
            reason,
        })
    }
}

/// Rewrites `password_env` and `password_file` as the option `password` for each of `secrets`.
pub(crate) fn fold(options: &mut Map<String, Value>, secrets: &[&str]) -> Result<(), String> {
    for secret in secrets {
        for place in ["env", "file"] {
            let Some(value) = options.remove(&format!("{secret}_{place}")) else {
                continue;
            };
            let found = json!({ place: value });
            if options.insert((*secret).to_owned(), found).is_some() {
                return Err(format!(
                    "give only one of `{secret}`, `{secret}_env` and `{secret}_file`"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown_but_its_place_is() {
        let secret: SecretSource = serde_json::from_value(json!("tulip")).unwrap();
        assert_eq!(format!("{secret:?}"), "Value(***)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""***""#);
        assert_eq!(secret.read("password").unwrap().reveal(), "tulip");
        let place = json!({"env": "CONSIGN_TEST_NOT_SET"});
        let secret: SecretSource = serde_json::from_value(place.clone()).unwrap();
        assert_eq!(serde_json::to_value(&secret).unwrap(), place);
        assert_eq!(
            secret.read("password").unwrap_err().to_string(),
            "sink option `password`: environment variable CONSIGN_TEST_NOT_SET is not set"
        );
    }

    #[test]
    fn a_secret_in_two_places_is_refused() {
        let mut options = Map::new();
        options.insert("password".into(), json!("tulip"));
        options.insert("password_file".into(), json!("/run/secret"));
        let error = fold(&mut options, &["password"]).unwrap_err();
        assert!(error.contains("only one of `password`"), "{error}");
    }
}
