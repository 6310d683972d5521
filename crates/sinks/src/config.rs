//! The configuration of a queue's sink.

use std::sync::Arc;

use consign_kernel::{QueueName, nearest};
use consign_worker::Sink;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::Error as _};
use serde_json::{Map, Value};

use crate::{SinkError, secret};

/// What a kind of sink brings: its options, and how a sink is made from them.
pub(crate) trait Kind: DeserializeOwned + Serialize {
    /// The options of type `SecretSource` or `Option<SecretSource>`, which may be written with `_env` or `_file`.
    const SECRETS: &'static [&'static str];

    /// Checks the options and creates the sink. Does not connect: the receiver may be down while
    /// the worker starts, so connections are made with the first delivery.
    fn build(
        &self,
        queue: &QueueName,
    ) -> impl Future<Output = Result<Arc<dyn Sink>, SinkError>> + Send;
}

/// Every kind there is: its word in the configuration, its variant, its options, its feature.
macro_rules! kinds {
    ($($(#[$when:meta])? $word:literal $variant:ident($options:ty) $(needs $feature:literal)?;)+) => {
        /// A queue's sink: a table with a `kind` and that kind's options.
        ///
        /// Serialises with its secrets hidden.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "kind")]
        #[non_exhaustive]
        pub enum SinkConfig {
            $(
                #[doc = concat!("`kind = \"", $word, "\"`")]
                $(#[$when])?
                #[serde(rename = $word)]
                $variant($options),
            )+
        }

        impl SinkConfig {
            /// The words a `kind` may be, whether this program was built with them or not.
            pub const KINDS: &'static [&'static str] = &[$($word),+];

            /// The kind, as in the configuration.
            pub fn kind(&self) -> &'static str {
                match self {
                    $($(#[$when])? Self::$variant(_) => $word,)+
                }
            }

            /// Checks the options, reads the secrets and makes the sink.
            ///
            /// Does not reach out: a sink that is down does not keep a worker from starting.
            pub async fn build(&self, queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
                match self {
                    $($(#[$when])? Self::$variant(options) => options.build(queue).await,)+
                }
            }

            fn read(kind: &str, options: Map<String, Value>) -> Result<Self, String> {
                $(
                    $(#[$when])?
                    if kind == $word {
                        return options_of(options).map(Self::$variant);
                    }
                    $(
                        if kind == $word {
                            return Err(format!(
                                "this program was built without sinks of kind `{}`: \
                                 build it with `--features {}`",
                                $word, $feature
                            ));
                        }
                    )?
                )+
                drop(options);
                Err(unknown(kind))
            }
        }
    };
}

kinds! {
    #[cfg(feature = "http")] "http" Http(crate::HttpConfig) needs "http";
    #[cfg(feature = "log")] "log" Log(crate::LogConfig) needs "log";
    #[cfg(feature = "exec")] "exec" Exec(crate::ExecConfig) needs "exec";
    #[cfg(feature = "nats")] "nats" Nats(crate::NatsConfig) needs "nats";
    #[cfg(feature = "rabbitmq")] "rabbitmq" Rabbitmq(crate::RabbitmqConfig) needs "rabbitmq";
    #[cfg(feature = "redis")] "redis" Redis(crate::RedisConfig) needs "redis";
    "discard" Discard(crate::DiscardConfig);
}

impl<'de> Deserialize<'de> for SinkConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut options = Map::deserialize(deserializer)?;
        match options.remove("kind") {
            Some(Value::String(kind)) => Self::read(&kind, options).map_err(D::Error::custom),
            _ => Err(D::Error::custom(format!(
                "a sink needs a `kind`: one of {}",
                Self::KINDS.join(", ")
            ))),
        }
    }
}

fn options_of<K: Kind>(mut options: Map<String, Value>) -> Result<K, String> {
    secret::fold(&mut options, K::SECRETS)?;
    serde_json::from_value(Value::Object(options)).map_err(|error| error.to_string())
}

fn unknown(kind: &str) -> String {
    match nearest(kind, SinkConfig::KINDS.iter().copied()) {
        Some(near) => format!("sink kind `{kind}` does not exist; did you mean `{near}`?"),
        None => format!(
            "sink kind `{kind}` does not exist; kinds are {}",
            SinkConfig::KINDS.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SinkConfig, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_kind_is_found_suggested_or_refused() {
        let config = read("kind = \"discard\"").unwrap();
        assert_eq!(config.kind(), "discard");
        let error = read("kind = \"discrad\"").unwrap_err();
        assert!(error.contains("did you mean `discard`?"), "{error}");
        let error = read("kind = \"pigeon\"").unwrap_err();
        assert!(error.contains("kinds are http, log, exec"), "{error}");
        let error = read("topic = \"x\"").unwrap_err();
        assert!(error.contains("a sink needs a `kind`"), "{error}");
        let error = read("kind = \"discard\"\nspeed = 1").unwrap_err();
        assert!(error.contains("unknown field `speed`"), "{error}");
    }

    #[cfg(not(feature = "nats"))]
    #[test]
    fn a_kind_that_is_not_built_in_names_its_feature() {
        let error = read("kind = \"nats\"\nsubject = \"x\"").unwrap_err();
        assert!(error.contains("`--features nats`"), "{error}");
    }
}
