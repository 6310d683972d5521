//! The settings, one declaration each: keys, bounds, defaults, `config show` and `config print-default`
//! are made from it.

use consign_app::config::{Config, Kind, Section, Setting};
use consign_kernel::QueuePolicy;
use serde::Deserialize;

use crate::QUEUE;

/// The table of settings.
pub(crate) static SETTINGS: Section = Section {
    name: QUEUE,
    about: "The newsletter: who subscribes is sent a welcome.",
    capitals: false,
    settings: &[
        Setting::new("newsletter.enabled", Kind::Flag, "whether the app is on").default("true"),
        Setting::new("newsletter.sender", Kind::Text, "the sender of welcomes")
            .default("\"news@shop.example\""),
        Setting::new(
            "newsletter.attempts_max",
            Kind::Whole(1, 100),
            "attempts of one welcome before its subscriber is unreachable",
        )
        .default("5")
        .policy(&["attempts_max"]),
    ],
    open: &[],
};

/// The settings in types.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Options {
    pub(crate) sender: String,
    attempts_max: u32,
}

impl Options {
    /// Kinds and bounds were checked when the settings were read.
    pub(crate) fn of(config: &Config) -> Self {
        serde_json::from_value(config.tree(QUEUE)).expect("invariant: every setting has a default")
    }

    /// The policy of the queue.
    pub(crate) fn policy(&self) -> QueuePolicy {
        QueuePolicy {
            attempts_max: self.attempts_max,
            ..QueuePolicy::default()
        }
    }
}
