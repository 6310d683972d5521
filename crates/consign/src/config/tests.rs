//! Tables of what is said and what comes of it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

/// The file, the environment, and the flags of one case.
fn load(file: Option<&str>, variables: &[(&str, &str)], flags: Flags) -> Result<Config, String> {
    let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let sources = Sources {
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

/// What is not as it is by default, one line each.
fn said(config: &Config) -> String {
    let line = |(path, entry): (&KeyPath, &Entry)| {
        let value = shown(path, &entry.value);
        format!("{path} = {value}  # {}\n", entry.origin)
    };
    let by_default = |(_, entry): &(&KeyPath, &Entry)| entry.origin == Origin::Default;
    let changed = config.values().filter(|value| !by_default(value));
    changed.map(line).collect()
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
    let queues = &config.settings.queues;
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["eu.mail", "letters"]);
    let before = consign_kernel::QueuePolicy {
        attempts_max: 3,
        concurrency: 99,
        ..Default::default()
    };
    let after = queues[0].policy(&before);
    assert_eq!((after.attempts_max, after.concurrency), (3, 4));
    assert_eq!(
        queues[1].policy(&before),
        before,
        "nothing is said about it"
    );
    assert!(queues[0].sink.is_some() && queues[1].sink.is_none());
}

#[test]
fn a_schedule_is_taken_as_a_whole_and_completed() {
    let file = "[queues.a.retry]\nbase_ms = 50";
    let config = load(Some(file), &[], Flags::new()).unwrap();
    let policy = config.settings.queues[0].policy(&Default::default());
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
    let options = &config.settings.orders.options;
    assert_eq!(options.outbox_backoff_sec, [5.0, 10.0, 20.0]);
    assert_eq!(options.rl_burst, 9, "a name of our own wins");
    assert!(!options.outbox_enabled, "the newer name wins");
    let json = [
        ("OUTBOX_BACKOFF_SEC", "[5, 10, 20]"),
        ("DO_FEATURE_OUTBOX", "0"),
    ];
    let config = load(None, &json, Flags::new()).unwrap();
    let options = &config.settings.orders.options;
    assert_eq!(options.outbox_backoff_sec, [5.0, 10.0, 20.0]);
    assert!(!options.outbox_enabled);
}

#[test]
fn orders_that_cannot_work_are_refused_where_they_are_said() {
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
        !config.settings.orders.enabled,
        "then somebody else may send what is in it"
    );
}

#[test]
fn a_change_is_told_apart_by_what_it_takes() {
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
        "said again next time"
    );
    let concurrency = |config: &Config| {
        config.settings.queues[0]
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
    let options = &before.settings.orders.options;
    assert_eq!(
        (options.outbox_concurrency, options.outbox_max_attempts),
        (5, 2)
    );
    assert_eq!(options.rl_burst, 30);
}

/// The settings a text about TOML names: `key = …`, also behind `#`, under its last heading.
fn named_in(text: &str) -> BTreeSet<String> {
    let mut table = String::new();
    let mut named = BTreeSet::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['#', ' ']);
        if let Some(heading) = line
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
        {
            table = heading
                .replace(".events", ".*")
                .replace(".ci", ".*")
                .replace(".USDJPY", ".*");
        }
        let words = line.split_once(" = ").map(|(name, _)| name.trim());
        let name = words.map(|name| name.rsplit(' ').next().unwrap_or(name));
        if let Some(name) = name.filter(|_| !table.is_empty()) {
            let is_named_by_users = ["payments.tenants", "scm.tokens", "scm.users"];
            let name = match is_named_by_users.contains(&table.as_str()) {
                true => "*",
                false => name,
            };
            named.insert(format!("{table}.{name}"));
        }
    }
    named
}

#[test]
fn the_defaults_mention_every_setting() {
    let named = named_in(DEFAULTS);
    let missing: Vec<&str> = key::KEYS
        .iter()
        .map(|key| key.path)
        .filter(|path| !named.contains(*path))
        .collect();
    assert!(
        missing.is_empty(),
        "not in config/default.toml: {missing:?}"
    );
}

#[test]
fn the_documentation_explains_every_setting() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let document = std::fs::read_to_string(path).unwrap();
    let missing: Vec<&str> = key::KEYS
        .iter()
        .map(|key| key.path)
        .filter(|path| !document.contains(&format!("| `{}` |", path.replace('*', "NAME"))))
        .collect();
    assert!(
        missing.is_empty(),
        "no row in docs/configuration.md: {missing:?}"
    );
}

#[test]
fn the_defaults_are_those_of_the_parts() {
    let config = load(Some(""), &[], Flags::new()).unwrap();
    let server = consign_server::ServerOptions::default();
    assert_eq!(config.settings.server, server);
    let orders = consign_orders::OrdersOptions::default();
    assert_eq!(config.settings.orders.options, orders);
    assert!(config.settings.orders.enabled && !config.settings.orders.is_said);
    let payments = &config.settings.payments;
    assert_eq!(
        payments.options,
        consign_payments::PaymentsOptions::default()
    );
    assert!(!payments.is_said && !payments.is_rail_said);
    let worker = consign_worker::WorkerOptions::new("w");
    assert_eq!(
        u128::from(config.settings.worker.grace_ms),
        worker.grace.as_millis()
    );
    assert_eq!(
        config.settings.worker.claimed_max_bytes,
        worker.claimed_max_bytes
    );
    let policy = serde_json::json!(consign_kernel::QueuePolicy::default());
    let commented = DEFAULTS.replace("# [queues.events", "[queues.events");
    for (name, value) in policy.as_object().unwrap() {
        if matches!(value, Value::Object(_) | Value::Null) {
            continue;
        }
        assert!(
            commented.contains(&format!("# {name} = {value}")),
            "{name} = {value}"
        );
    }
}

/// Other programs have brokers too, and say where in the same variable.
#[test]
fn a_broker_of_another_program_is_left_alone() {
    let amqp = [("BROKER_URL", "amqp://me@queue//")];
    let config = load(None, &amqp, Flags::new()).unwrap();
    assert_eq!(config.settings.orders.options.broker_url, None);
    assert!(!config.settings.orders.is_said);
    assert!(config.note.unwrap().contains("BROKER_URL is not used"));
    // Said to consign, it is meant.
    let meant = [("CONSIGN_ORDERS__BROKER_URL", "https://broker.example")];
    assert!(load(None, &meant, Flags::new()).is_err());
    let http = "[orders]\nbroker_adapter = \"http\"";
    let ours = [("BROKER_URL", "https://broker.example")];
    let config = load(Some(http), &ours, Flags::new()).unwrap();
    let url = config.settings.orders.options.broker_url.as_deref();
    assert_eq!((url, config.note), (Some("https://broker.example"), None));
}

/// The options of orders refuse more, where nobody would know where it was said.
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
    let database = &config.settings.database;
    assert!(database.migrate_on_start && !database.check_on_start);
    let listens = |file, variables: &[(&str, &str)]| {
        let config = load(file, variables, Flags::new()).unwrap();
        config.settings.server.listen.to_string()
    };
    let port = ("GATEWAY_PORT", "9999");
    assert_eq!(listens(None, &[port]), "127.0.0.1:9999");
    let file = Some("[server]\nlisten = \"[::1]:80\"");
    assert_eq!(listens(file, &[port]), "[::1]:9999", "only the port");
    let whole = ("CONSIGN_SERVER__LISTEN", "127.0.0.2:1");
    assert_eq!(listens(file, &[port, whole]), "127.0.0.2:1", "said in full");
    let whole = ("CONSIGN_DATABASE__MIGRATE_ON_START", "false");
    let both = load(None, &[variables[1], whole], Flags::new()).unwrap();
    assert!(!both.settings.database.migrate_on_start);
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
