//! Tables of configurations and their results.

use serde_json::Value;

use super::*;
use crate::apps::REGISTRY;

/// The file, the environment, and the flags of one case.
fn load(file: Option<&str>, variables: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let sources = Sources {
        registry: &REGISTRY,
        example: EXAMPLE,
        file: None,
        variables: variables.iter().map(owned).collect(),
        flags,
    };
    let named = file.map(|text| (text, FILE_NAME));
    Config::assemble(named, &sources, None).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
        lines.join("\n")
    })
}

/// The settings that are not defaults, one line each.
fn said(config: &Config) -> String {
    let line = |(path, entry): (&KeyPath, &Entry)| {
        let value = shown(Catalogue(&REGISTRY), path, &entry.value);
        format!("{path} = {value}  # {}\n", entry.origin)
    };
    let by_default = |(_, entry): &(&KeyPath, &Entry)| entry.origin == Origin::Default;
    let changed = config.values().filter(|value| !by_default(value));
    changed.map(line).collect()
}

fn settings(config: &Config) -> Settings {
    Settings::of(config).unwrap_or_else(|failure| panic!("{}", failure.message()))
}

fn orders_of(config: &Config) -> consign_orders::OrdersOptions {
    let mut table = config.tree("orders");
    table.as_object_mut().unwrap().remove("enabled");
    serde_json::from_value(table).unwrap()
}

fn wrong(file: &str) -> String {
    load(Some(file), &[], Flags::new()).expect_err("it must be refused")
}

const FULL: &str = r#"[database]
url = "postgres://me:s3cret@db/shop"
pooler = "transaction"

[server]
listen = "127.0.0.1:9000"
rate_limit.per_second = 10

[server.tokens.ci]
hash = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
scopes = ["producer", "auditor"]

[queues."eu.mail"]
concurrency = 4
retry = { kind = "table", delays_ms = [5, 30] }

[queues."eu.mail".sink]
kind = "discard"

[queues.letters]
"#;

#[test]
fn every_layer_wins_over_the_one_before() {
    let variables = [
        ("DATABASE_URL", "elsewhere.db"),
        ("CONSIGN_SERVER__LISTEN", "127.0.0.1:9001"),
        ("CONSIGN_QUEUES__LETTERS__ORDERED", "true"),
        ("CONSIGN_TEST_SOMETHING", "not a setting"),
        ("CONSIGN_LOG__FILTER", ""),
    ];
    let flags = vec![("server.listen", "127.0.0.1:9002".into(), "--listen")];
    let shown = [
        (
            "nothing at all",
            said(&load(None, &[], Flags::new()).unwrap()),
        ),
        (
            "a file",
            said(&load(Some(FULL), &[], Flags::new()).unwrap()),
        ),
        (
            "variables",
            said(&load(Some(FULL), &variables, Flags::new()).unwrap()),
        ),
        ("flags", said(&load(Some(FULL), &variables, flags).unwrap())),
    ];
    let text: Vec<String> = shown
        .iter()
        .map(|(name, text)| format!("--- {name}\n{text}"))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_was_meant() {
    let cases = [
        "[server]\nlistn = \"x\"",
        "[serve]\nlisten = \"127.0.0.1:1\"",
        "listen = \"127.0.0.1:1\"",
        "[server]\nlisten = 8787",
        "[server]\nlisten = \"localhost\"",
        "[worker]\n\ngrace_ms = \"soon\"",
        "[database]\npooler = \"statement\"\nconnections_max = 0",
        "server = 3",
        "[server.listen]\nx = 1",
        "[queues.events]\nconcurency = 3",
        "[queues.Events]\nconcurrency = 3",
        "[queues.events]\nconcurrency = 0",
        "[queues.events.retry]\nkind = \"fixed\"",
        "[queues.events.retry]\nkind = \"fixed\"\ndelay = 3",
        "[queues.events.sink]\nurl = \"http://x\"",
        "[queues.events.sink]\nkind = \"discrad\"",
        "[queues.events.sink]\nkind = \"discard\"\nspeed = 1",
        "[server.tokens.ci]\nscopes = [\"producer\"]",
        "[server.tokens.ci]\nhash = \"x\"\nscopes = [\"producr\"]",
        "[log]\nformat = \"xml\"\nfilter = 3\ncolour = true",
        "[log\nformat = 1",
        "[a]\nb = 1\n[a]\nb = 2",
    ];
    let told: Vec<String> = cases
        .iter()
        .map(|file| format!("{file}\n=> {}", wrong(file).replace('\n', "\n=> ")))
        .collect();
    insta::assert_snapshot!(told.join("\n\n"));
}

#[test]
fn a_variable_that_is_wrong_is_named() {
    let cases = [
        ("CONSIGN_SERVER__LISTN", "127.0.0.1:1"),
        ("CONSIGN_SERVER_LISTEN", "127.0.0.1:1"),
        ("CONSIGN_WORKER__GRACE_MS", "soon"),
        ("CONSIGN_SERVER__RATE_LIMIT", "3"),
        ("CONSIGN_QUEUES__EVENTS__RETRY__KIND", "linear"),
    ];
    let told: Vec<String> = cases
        .iter()
        .map(|(name, value)| {
            let refused = load(Some(""), &[(name, value)], Flags::new());
            format!(
                "{name}={value}\n=> {}",
                refused.expect_err("it must be refused")
            )
        })
        .collect();
    insta::assert_snapshot!(told.join("\n\n"));
}

#[test]
fn a_queue_keeps_what_the_file_does_not_mention() {
    let config = load(Some(FULL), &[], Flags::new()).unwrap();
    let queues = settings(&config).queues;
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["eu.mail", "letters"]);
    let before = consign_kernel::QueuePolicy {
        attempts_max: 3,
        concurrency: 99,
        ..Default::default()
    };
    let after = queues[0].policy(&before);
    assert_eq!((after.attempts_max, after.concurrency), (3, 4));
    assert_eq!(queues[1].policy(&before), before, "not set");
    assert!(queues[0].sink.is_some() && queues[1].sink.is_none());
}

#[test]
fn a_schedule_is_taken_as_a_whole_and_completed() {
    let file = "[queues.a.retry]\nbase_ms = 50";
    let config = load(Some(file), &[], Flags::new()).unwrap();
    let policy = settings(&config).queues[0].policy(&Default::default());
    let expected = consign_kernel::RetrySchedule::Exponential {
        base_ms: 50,
        factor: 2.0,
        max_ms: 3_600_000,
        jitter: 0.2,
    };
    assert_eq!(policy.retry, expected);
}

#[test]
fn orders_are_set_by_the_names_of_their_document() {
    let file = "[orders]\nOUTBOX_CONCURRENCY = 8\noutbox_batch = 16\nIDEMPO_SECRET = \"s3cret\"\n\
                broker_adapter = \"http\"\nbroker_url = \"https://u:p@broker.example/o\"\n";
    let variables = [
        ("OUTBOX_BATCH", "64"),
        ("OUTBOX_BACKOFF_SEC", "5,10,20"),
        ("OUTBOX_POLL_INTERVAL_SEC", "0.25"),
        ("OUTBOX_ENABLED", "False"),
        ("DO_FEATURE_OUTBOX", "true"),
        ("BROKER_API_SECRET", "s3cret"),
        ("CONSIGN_ORDERS__RL_BURST", "9"),
        ("RL_BURST", "8"),
        ("OUTBOX_SOMETHING", "of another program"),
        ("PAPER_SEED", "7"),
    ];
    let config = load(Some(file), &variables, Flags::new()).unwrap();
    insta::assert_snapshot!(said(&config));
    let options = orders_of(&config);
    assert_eq!(options.outbox_backoff_sec, [5.0, 10.0, 20.0]);
    assert_eq!(options.rl_burst, 9, "a name of our own wins");
    assert!(!options.outbox_enabled, "the newer name wins");
    let json = [
        ("OUTBOX_BACKOFF_SEC", "[5, 10, 20]"),
        ("DO_FEATURE_OUTBOX", "0"),
    ];
    let config = load(None, &json, Flags::new()).unwrap();
    let options = orders_of(&config);
    assert_eq!(options.outbox_backoff_sec, [5.0, 10.0, 20.0]);
    assert!(!options.outbox_enabled);
}

#[test]
fn invalid_settings_of_orders_are_rejected_with_their_position() {
    let cases = [
        "[orders]\noutbox_concurency = 3",
        "[orders]\nOUTBOX_CONCURENCY = 3",
        "[orders]\noutbox_batch = 3\nOUTBOX_BATCH = 4",
        "OUTBOX_BATCH = 3",
        "[orders]\noutbox_backoff_sec = []",
        "[orders]\noutbox_backoff_sec = [\"5\"]",
        "[orders]\noutbox_backoff_sec = [-1]",
        "[orders]\nbroker_adapter = \"fix\"",
        "[orders]\nbroker_adapter = \"http\"",
        "[orders]\nbroker_url = \"https://broker.example\"",
        "[orders]\nbroker_takes_keys = false",
        "[orders]\norder_max_age_sec = 7200\nidempo_ttl_hours = 1",
        "[orders]\nrl_burst = 0",
        "[orders]\nidempo_secret = 7",
        "[orders]\noutbox_enabled = false\nbroker_timeout_ms = 40000",
        "[queues.orders]\nconcurrency = 3",
        "[queues.orders.sink]\nkind = \"discard\"",
    ];
    let told: Vec<String> = cases
        .iter()
        .map(|file| format!("{file}\n=> {}", wrong(file).replace('\n', "\n=> ")))
        .collect();
    insta::assert_snapshot!(told.join("\n\n"));
    let own =
        "[orders]\nenabled = false\nbroker_adapter = \"http\"\n[queues.orders]\nconcurrency = 3";
    let config = load(Some(own), &[], Flags::new()).unwrap();
    assert!(
        !config.is_on("orders"),
        "then another program may send what is in it"
    );
}

#[test]
fn lists_changes_that_need_a_restart() {
    let before = load(Some(FULL), &[], Flags::new()).unwrap();
    let change = |from: &str, to: &str| {
        assert!(FULL.contains(from), "{from}");
        load(Some(&FULL.replace(from, to)), &[], Flags::new()).unwrap()
    };
    let policy = change("concurrency = 4", "concurrency = 5");
    assert_eq!(before.differs_beyond_policies(&policy), [""; 0]);
    let more = change("listen = \"127.0.0.1:9000\"", "listen = \"127.0.0.1:9005\"");
    assert_eq!(before.differs_beyond_policies(&more), ["server.listen"]);
    let sink = change("kind = \"discard\"", "kind = \"discard\" # the same");
    assert_eq!(before.differs_beyond_policies(&sink), [""; 0]);
    let mut kept = before.clone();
    let both = load(
        Some(
            &FULL
                .replace("concurrency = 4", "concurrency = 5")
                .replace("9000", "9005"),
        ),
        &[],
        Flags::new(),
    )
    .unwrap();
    kept.take_policies(both.clone());
    assert_eq!(
        kept.differs_beyond_policies(&both),
        ["server.listen"],
        "reported again next time"
    );
    let concurrency = |config: &Config| {
        settings(config).queues[0]
            .policy(&Default::default())
            .concurrency
    };
    assert_eq!(concurrency(&kept), 5);
    let orders = |lines: &str| {
        let file = format!("{FULL}\n[orders]\n{lines}");
        load(Some(&file), &[], Flags::new()).unwrap()
    };
    let mut before = orders("outbox_concurrency = 4\nrl_burst = 30");
    let after = orders("outbox_concurrency = 5\noutbox_max_attempts = 2\nrl_burst = 20");
    assert_eq!(before.differs_beyond_policies(&after), ["orders.rl_burst"]);
    before.take_policies(after);
    let options = orders_of(&before);
    assert_eq!(
        (options.outbox_concurrency, options.outbox_max_attempts),
        (5, 2)
    );
    assert_eq!(options.rl_burst, 30);
}

/// `config print-default` is a file that changes nothing, and shows every setting.
#[test]
fn the_printed_defaults_are_the_defaults() {
    let text = default_file(&REGISTRY);
    let config = load(Some(&text), &[], Flags::new()).unwrap();
    let bare = load(Some(""), &[], Flags::new()).unwrap();
    for setting in Catalogue(&REGISTRY).settings() {
        let name = match setting.name() {
            "*" => "NAME",
            name => name,
        };
        assert!(text.contains(&format!("{name} = ")), "{}", setting.key);
        assert_eq!(config.value(setting.key), bare.value(setting.key));
    }
}

#[test]
fn the_documentation_has_the_declared_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let mut document = std::fs::read_to_string(path).unwrap();
    let is_writing = std::env::var_os("CONSIGN_WRITE_SETTINGS").is_some();
    for section in REGISTRY.sections() {
        let name = if section.name.is_empty() {
            "apps"
        } else {
            section.name
        };
        let heading = format!("\n### {name}\n");
        let (before, rest) = document.split_once(&heading).unwrap_or_else(|| {
            panic!("docs/configuration.md has no heading {name}");
        });
        let (prose, rest) = rest.split_once("| setting |").unwrap();
        let (_, rest) = rest.split_once("\n\n").unwrap();
        let written = format!("{before}{heading}{prose}{}\n{rest}", table(section));
        if is_writing {
            std::fs::write(path, &written).unwrap();
        }
        assert!(
            written == document || is_writing,
            "the table of {name} differs from the declarations; CONSIGN_WRITE_SETTINGS=1 with this \
             test rewrites it"
        );
        document = written;
    }
}

#[test]
fn the_defaults_are_those_of_the_parts() {
    let config = load(Some(""), &[], Flags::new()).unwrap();
    let Settings { server, worker, .. } = settings(&config);
    assert_eq!(server, consign_server::ServerOptions::default());
    let expected = consign_worker::WorkerOptions::new("w");
    assert_eq!(u128::from(worker.grace_ms), expected.grace.as_millis());
    assert_eq!(worker.claimed_max_bytes, expected.claimed_max_bytes);
    let policy = serde_json::json!(consign_kernel::QueuePolicy::default());
    let printed = default_file(&REGISTRY);
    for (name, value) in policy.as_object().unwrap() {
        if matches!(value, Value::Object(_) | Value::Null) {
            continue;
        }
        assert!(
            printed.contains(&format!("# {name} = {value}")),
            "{name} = {value}"
        );
    }
}

/// What an app reads is rejected only while the app is on.
#[test]
fn variables_of_an_app_are_read_while_it_is_on() {
    let variables = [("OUTBOX_BATCH", "many"), ("PROJECT_KEY", "")];
    let own = "[database]\nurl = \"sqlite:shop.db\"";
    let config = load(Some(own), &variables, Flags::new()).unwrap();
    assert_eq!(config.apps().count(), 0, "a database of the user's own");
    let named = format!("apps = [\"payments\"]\n{own}");
    let config = load(Some(&named), &variables, Flags::new()).unwrap();
    let names: Vec<&str> = config.apps().map(|app| app.name()).collect();
    assert_eq!(names, ["payments"]);
    let by_table = format!("{own}\n[orders]\nrl_burst = 3");
    let error = load(Some(&by_table), &variables, Flags::new()).unwrap_err();
    assert!(
        error.contains("OUTBOX_BATCH: orders.outbox_batch"),
        "{error}"
    );
    let error = load(None, &variables, Flags::new()).unwrap_err();
    assert!(error.contains("OUTBOX_BATCH"), "every app is on: {error}");
    let off = "[orders]\nenabled = false";
    load(Some(off), &variables, Flags::new()).unwrap();
}

#[test]
fn an_unknown_app_and_an_unknown_variable_are_rejected_with_a_suggestion() {
    let error = load(Some("apps = [\"order\"]"), &[], Flags::new()).unwrap_err();
    assert!(error.contains("did you mean \"orders\"?"), "{error}");
    for (name, suggestion) in [
        ("CONSIGN_LISTEN", "print-default"),
        ("CONSIGN_DATABSE_URL", "CONSIGN_DATABASE_URL"),
        ("CONSIGN_SERVER_LISTEN", "CONSIGN_SERVER__LISTEN"),
        ("CONSIGN_SERVER_LISTN", "CONSIGN_SERVER__LISTEN"),
        ("CONSIGN_PORTX", "unknown variable"),
        ("CONSIGN_TESTS", "unknown variable"),
    ] {
        let error = load(Some(""), &[(name, "x")], Flags::new()).unwrap_err();
        assert!(error.contains(suggestion), "{error}");
    }
    // Kubernetes sets these for a service named consign, the exec sink those of its message.
    let foreign = [
        ("CONSIGN_SERVICE_HOST", "10.0.0.1"),
        ("CONSIGN_PORT", "tcp://10.0.0.1:8787"),
        ("CONSIGN_PORT_8787_TCP", "tcp://10.0.0.1:8787"),
        ("CONSIGN_MESSAGE_ID", "7"),
    ];
    load(Some(""), &foreign, Flags::new()).unwrap();
    let secret = "[queues.a.sink]\nkind = \"http\"\nurl = \"http://h\"\n\
                  signing_secret_env = \"CONSIGN_EVENTS_SECRET\"";
    load(
        Some(secret),
        &[("CONSIGN_EVENTS_SECRET", "x")],
        Flags::new(),
    )
    .unwrap();
}

/// Other programs have brokers too, and use the same variable.
#[test]
fn a_broker_of_another_program_is_left_alone() {
    let amqp = [("BROKER_URL", "amqp://me@queue//")];
    let config = load(None, &amqp, Flags::new()).unwrap();
    assert_eq!(orders_of(&config).broker_url, None);
    assert!(!config.is_set("orders"));
    assert!(config.notes[0].contains("BROKER_URL is not used"));
    // With the prefix of consign, it is used.
    let meant = [("CONSIGN_ORDERS__BROKER_URL", "https://broker.example")];
    assert!(load(None, &meant, Flags::new()).is_err());
    let http = "[orders]\nbroker_adapter = \"http\"";
    let ours = [("BROKER_URL", "https://broker.example")];
    let config = load(Some(http), &ours, Flags::new()).unwrap();
    let url = orders_of(&config).broker_url;
    assert_eq!(url.as_deref(), Some("https://broker.example"));
    assert!(config.notes.is_empty());
}

/// The options of orders reject more, without the origin of the value.
#[test]
fn a_timeout_of_the_broker_has_one_limit() {
    for name in ["broker_timeout_ms", "broker_timeout_fok_gtc_ms"] {
        let most = format!("[orders]\n{name} = 600000");
        assert!(load(Some(&most), &[], Flags::new()).is_ok());
        assert!(wrong(&format!("[orders]\n{name} = 600001")).contains("consign.toml:2"));
    }
}

#[test]
fn the_variables_of_the_gateway_are_settings() {
    let variables = [
        ("GATEWAY_PORT", "9999"),
        ("AUTO_MIGRATE_ON_STARTUP", "yes"),
        ("LOGBOOK_CHECK_ON_STARTUP", "false"),
    ];
    let config = load(None, &variables, Flags::new()).unwrap();
    let database = settings(&config).database;
    assert!(database.migrate_on_start && !database.check_on_start);
    let listens = |file, variables: &[(&str, &str)]| {
        let config = load(file, variables, Flags::new()).unwrap();
        settings(&config).server.listen.to_string()
    };
    let port = ("GATEWAY_PORT", "9999");
    assert_eq!(listens(None, &[port]), "127.0.0.1:9999");
    let file = Some("[server]\nlisten = \"[::1]:80\"");
    assert_eq!(listens(file, &[port]), "[::1]:9999", "only the port");
    let whole = ("CONSIGN_SERVER__LISTEN", "127.0.0.2:1");
    assert_eq!(listens(file, &[port, whole]), "127.0.0.2:1", "set in full");
    let whole = ("CONSIGN_DATABASE__MIGRATE_ON_START", "false");
    let both = load(None, &[variables[1], whole], Flags::new()).unwrap();
    assert!(!settings(&both).database.migrate_on_start);
    for (name, text) in [
        ("GATEWAY_PORT", "0"),
        ("GATEWAY_PORT", "65536"),
        ("GATEWAY_PORT", "http"),
        ("AUTO_MIGRATE_ON_STARTUP", "maybe"),
        ("LOGBOOK_CHECK_ON_STARTUP", "2"),
    ] {
        let told = load(None, &[(name, text)], Flags::new()).unwrap_err();
        assert!(told.starts_with(name) && told.contains(text), "{told}");
    }
}

#[test]
fn a_variable_that_nearly_names_the_database_is_refused() {
    for name in ["CONSIGN_DATABASE", "CONSIGN_DATABSE_URL", "CONSIGN_URL"] {
        let told = load(None, &[(name, "postgres://db/shop")], Flags::new()).unwrap_err();
        assert!(
            told.contains("did you mean CONSIGN_DATABASE_URL?"),
            "{told}"
        );
    }
    let others = [("CONSIGN_TEST_POSTGRES_URL", "x"), ("CONSIGN_CONFIG", "x")];
    assert!(load(None, &others, Flags::new()).is_ok());
}
