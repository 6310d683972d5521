//! Values that are used but never shown.

use std::{fmt, path::PathBuf};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::SinkError;

/// A value that no log, error or listing may show, or the place where it is found.
///
/// In the configuration it is text (the value itself), `{ env = "NAME" }` or `{ file = "path" }`.
/// An option `password` may also be written `password_env = "NAME"` or `password_file = "path"`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub enum Secret {
    /// The value itself.
    Value(String),
    /// The environment variable that holds it.
    Env(String),
    /// The file that holds it; blanks and line ends around it do not count.
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a secret is text, { env = \"NAME\" } or { file = \"path\" }"
)]
enum Written {
    Value(String),
    Env(InEnvironment),
    File(InFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InEnvironment {
    env: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InFile {
    file: PathBuf,
}

impl From<Written> for Secret {
    fn from(written: Written) -> Self {
        match written {
            Written::Value(value) => Self::Value(value),
            Written::Env(InEnvironment { env }) => Self::Env(env),
            Written::File(InFile { file }) => Self::File(file),
        }
    }
}

impl Secret {
    /// The value itself, from wherever it is. `option` is named in errors, the value never.
    pub fn reveal(&self, option: &str) -> Result<String, SinkError> {
        let fail = |place: String, reason: String| SinkError::Secret {
            option: option.to_owned(),
            place,
            reason,
        };
        let (place, value) = match self {
            Self::Value(value) => return Ok(value.clone()),
            Self::Env(name) => {
                let place = format!("environment variable {name}");
                match std::env::var(name) {
                    Ok(value) => (place, value),
                    Err(std::env::VarError::NotPresent) => {
                        return Err(fail(place, "is not set".into()));
                    }
                    Err(std::env::VarError::NotUnicode(_)) => {
                        return Err(fail(place, "is not valid UTF-8".into()));
                    }
                }
            }
            Self::File(path) => {
                let place = format!("file {}", path.display());
                match std::fs::read_to_string(path) {
                    Ok(value) => (place, value),
                    Err(error) => return Err(fail(place, format!("cannot be read: {error}"))),
                }
            }
        };
        match value.trim() {
            "" => Err(fail(place, "is empty".into())),
            value => Ok(value.to_owned()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Secret(hidden)"),
            Self::Env(name) => write!(f, "Secret(variable {name})"),
            Self::File(path) => write!(f, "Secret(file {})", path.display()),
        }
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(_) => "(hidden)".serialize(serializer),
            Self::Env(name) => json!({ "env": name }).serialize(serializer),
            Self::File(path) => json!({ "file": path }).serialize(serializer),
        }
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
        let secret = Secret::Value("tulip".into());
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""(hidden)""#);
        let secret: Secret = serde_json::from_value(json!({"env": "NAME"})).unwrap();
        assert_eq!(
            serde_json::to_value(&secret).unwrap(),
            json!({"env": "NAME"})
        );
    }

    #[test]
    fn a_file_is_read_without_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "tulip\n").unwrap();
        let secret = Secret::File(file.path().to_owned());
        assert_eq!(secret.reveal("password").unwrap(), "tulip");
        std::fs::write(file.path(), "\n").unwrap();
        let error = secret.reveal("password").unwrap_err().to_string();
        assert!(
            error.starts_with("sink option `password`: file /"),
            "{error}"
        );
        assert!(error.ends_with("is empty"), "{error}");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let secret = Secret::Env("CONSIGN_TEST_NOT_SET".into());
        assert_eq!(
            secret.reveal("password").unwrap_err().to_string(),
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
