//! The settings of scm: one declaration each.

use consign_app::config::{Kind, Section, Setting};

/// The table of settings.
pub(crate) static SCM: Section = Section {
    name: "scm",
    about: "Repositories (docs/scm.md): read into the database, their changes made memories.",
    capitals: false,
    settings: SCM_SETTINGS,
    open: &[],
};

static SCM_SETTINGS: &[Setting] = &[
    Setting::new(
        "scm.every_seconds",
        Kind::Whole(0, 86_400),
        "how often `serve` synchronises, fetches and consumes all repositories; 0: only by \
         `consign scm`",
    )
    .default("0"),
    Setting::new(
        "scm.mode",
        Kind::Word(&["strict", "best_effort"]),
        "what happens to a record that the database rejects: `strict` stops there, `best_effort` \
         skips and logs it",
    )
    .default("\"strict\""),
    Setting::new(
        "scm.diffs",
        Kind::Word(&["later", "now"]),
        "when changes are fetched: `later`, by `consign scm materialize`, or `now`, with the \
         synchronisation",
    )
    .default("\"later\""),
    Setting::new(
        "scm.diff_max_bytes",
        Kind::Whole(1, 1 << 30),
        "a larger change is kept as a list of what it touches",
    )
    .default("10485760"),
    Setting::new(
        "scm.materialize_max",
        Kind::Whole(0, 1_000_000),
        "how many changes of one repository `serve` fetches at a time; 0: none",
    )
    .default("1000"),
    Setting::new(
        "scm.mirrors_root",
        Kind::Text,
        "where mirrors of remote Git repositories are kept; absent: `consign-mirrors` beside \
         `memory.artifacts_root`. A folder inside of `memory.artifacts_root` is rejected",
    )
    .example("\"consign-mirrors\""),
    Setting::new(
        "scm.allow",
        Kind::Texts,
        "addresses, ranges and hosts that repositories are read from besides public \
         addresses; absent: all where the database is a SQLite file, none in PostgreSQL. \
         [Why](scm.md#where-repositories-may-be)",
    )
    .example("[\"gitlab.internal\", \"10.0.0.0/8\"]"),
    Setting::new(
        "scm.local_roots",
        Kind::Texts,
        "folders that local repositories lie in; absent: every folder where the database is a \
         SQLite file, none in PostgreSQL",
    )
    .example("[\"/srv/git\"]"),
    Setting::new(
        "scm.silence_max_seconds",
        Kind::Whole(1, 3_600),
        "how long a source may send nothing before it counts as unreachable",
    )
    .default("60"),
    Setting::new(
        "scm.batch_records_max",
        Kind::Whole(1, 100_000),
        "how many records are written in one transaction",
    )
    .default("1000"),
    Setting::new(
        "scm.ca_file",
        Kind::Text,
        "a certificate authority to trust besides the system's, as PEM",
    )
    .example("\"/etc/ssl/own-ca.pem\""),
    Setting::new(
        "scm.card_kind",
        Kind::Word(&[
            "FACT",
            "PROCEDURE",
            "PITFALL",
            "DECISION",
            "REVIEW_GUIDE",
            "REFLECTION",
        ]),
        "what sort of memory changes become; the policy decides which kinds may go to the team",
    )
    .default("\"FACT\""),
    Setting::new(
        "scm.actor_user_id",
        Kind::Text,
        "actor of the stored memories; absent: none",
    )
    .example("\"...\""),
    Setting::new(
        "scm.tokens.*",
        Kind::Secret,
        "the token or password for a host, such as `\"gitlab.example\" = \"...\"`",
    )
    .example("\"...\""),
    Setting::new(
        "scm.users.*",
        Kind::Text,
        "the name that goes with it, where one is needed",
    )
    .example("\"...\""),
    Setting::new(
        "scm.token",
        Kind::Secret,
        "a token or password for one host, for the environment: `CONSIGN_SCM__TOKEN`",
    )
    .example("\"...\""),
    Setting::new(
        "scm.token_host",
        Kind::Text,
        "that host; the token is sent to no other",
    )
    .example("\"gitlab.example\""),
    Setting::new("scm.token_user", Kind::Text, "the name that goes with it").example("\"...\""),
];
