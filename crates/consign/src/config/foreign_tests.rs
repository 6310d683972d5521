//! Arbitrary files and variables: every text is accepted or rejected
//! with reasons, and nothing panics.

use proptest::{prelude::*, sample::select};

use super::*;
use crate::apps::REGISTRY;

/// Lines that files are made of, and parts that break them.
const LINES: [&str; 34] = [
    "[database]\n",
    "[server]\n",
    "[server.tokens.ci]\n",
    "[queues.a]\n",
    "[queues.a.sink]\n",
    "[queues.a.retry]\n",
    "[orders]\n",
    "[payments]\n",
    "[memory]\n",
    "[scm]\n",
    "[scm.tokens]\n",
    "url = \"postgres://u:p@h/d\"\n",
    "listen = \"[::1]:99999\"\n",
    "hash = \"sha256:00\"\n",
    "scopes = [\"producer\"]\n",
    "kind = \"http\"\n",
    "kind = \"table\"\n",
    "delays_ms = [1, -1]\n",
    "allow = [\"10.0.0.0/33\"]\n",
    "local_roots = []\n",
    "concurrency = 1e9\n",
    "attempts_max = 0x10\n",
    "timeout_ms = inf\n",
    "enabled = 1979-05-27T07:32:00Z\n",
    "gateway_auth_token = \"short\"\n",
    "\"é\" = \"é\"\n",
    "a.b.c.d = 1\n",
    "= 1\n",
    "[[queues]]\n",
    "[queues.\"\"]\n",
    "\"\"\"",
    "\\",
    "#é\n",
    "headers = { Authorization = \"Bearer hunter2\" }\n",
];

fn file() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        8 => select(&LINES[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(line, 0..20).prop_map(|lines| lines.concat())
}

fn variables() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![
        select(KEYS_AS_VARIABLES.as_slice()).prop_map(str::to_owned),
        "CONSIGN_[A-Z_]{0,30}",
    ];
    let value = prop_oneof![
        select(vec![
            "1",
            "true",
            "[]",
            "[1,",
            "a,b",
            "sqlite:x.db",
            "0.0.0.0:1",
            "{}"
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    proptest::collection::vec((name, value), 0..6)
}

const KEYS_AS_VARIABLES: [&str; 12] = [
    "CONSIGN_SERVER__LISTEN",
    "CONSIGN_DATABASE__URL",
    "CONSIGN_QUEUES__A__CONCURRENCY",
    "CONSIGN_QUEUES__A__SINK__URL",
    "CONSIGN_SCM__ALLOW",
    "CONSIGN_SERVER__SESSION_KEY",
    "GATEWAY_PORT",
    "OUTBOX_BACKOFF_SEC",
    "GATEWAY_AUTH_TOKENS_JSON",
    "AUTO_MIGRATE_ON_STARTUP",
    "DATABASE_URL",
    "BROKER_URL",
];

proptest! {
    #[test]
    fn settings_are_taken_or_refused_with_reasons(file in file(), variables in variables()) {
        let sources = Sources {
            registry: &REGISTRY,
            example: EXAMPLE,
            file: None,
            variables,
            flags: Flags::new(),
        };
        match Config::assemble(Some((&file, FILE_NAME)), &sources, None) {
            Ok(config) => {
                for (path, entry) in config.values() {
                    let text = shown(Catalogue(&REGISTRY), path, &entry.value).to_string();
                    prop_assert!(!text.contains("hunter2"), "{path}: {text}");
                }
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in &problems {
                    prop_assert!(!problem.to_string().contains("hunter2"), "{problem}");
                }
            }
        }
    }
}
