//! What the broker has seen and done: one line each, written before it goes on.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::step::BrokerManner;

/// How the lines of sends and of executions begin.
pub(super) const SENT: &str = r#"{"event":"sent""#;
pub(super) const EXECUTED: &str = r#"{"event":"executed""#;

/// One thing that happened at the broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum BrokerEvent {
    /// Its behaviour was set.
    Error {
        /// How.
        manner: BrokerManner,
    },
    /// An order came in.
    Sent {
        /// Its idempotency key.
        key: String,
        /// All headers, by lower-case name.
        headers: BTreeMap<String, String>,
        /// The body as it came.
        body: String,
        /// How many orders were being worked on then, this one included.
        in_flight: usize,
        /// When.
        at: Timestamp,
    },
    /// An order was executed.
    Executed {
        /// Its idempotency key.
        key: String,
        /// What was executed of it.
        qty: String,
        /// The answer, sent or not.
        answer: String,
    },
    /// The status of a key was requested.
    Asked {
        /// The key.
        key: String,
        /// Whether it was known and answered.
        was_told: bool,
    },
}

/// How a key fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it was sent.
    pub sends: usize,
    /// How often it was executed.
    pub executions: usize,
    /// How often it was requested.
    pub queries: usize,
}

/// Everything that happened at the broker, in order.
#[derive(Clone, Debug, Default)]
pub struct BrokerJournal(pub Vec<BrokerEvent>);

impl BrokerJournal {
    /// What is in the file; nothing if there is none. A last line that is being written is left out.
    pub(super) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("a line of the journal: {e}"))
        };
        Self(whole.lines().map(parse).collect())
    }

    /// How many lines begin like this, without reading what they say.
    pub(super) fn count(path: &Path, begins: &str) -> usize {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines();
        lines.filter(|line| line.starts_with(begins)).count()
    }

    /// Every key with how it fared.
    pub fn tallies(&self) -> BTreeMap<String, Tally> {
        let mut tallies = BTreeMap::<String, Tally>::new();
        for event in &self.0 {
            match event {
                BrokerEvent::Error { .. } => {}
                BrokerEvent::Sent { key, .. } => tallies.entry(key.clone()).or_default().sends += 1,
                BrokerEvent::Executed { key, .. } => {
                    tallies.entry(key.clone()).or_default().executions += 1;
                }
                BrokerEvent::Asked { key, .. } => {
                    tallies.entry(key.clone()).or_default().queries += 1;
                }
            }
        }
        tallies
    }

    /// How one key fared.
    pub fn tally(&self, key: &str) -> Tally {
        self.tallies().get(key).copied().unwrap_or_default()
    }

    /// How many orders came in.
    pub fn send_count(&self) -> usize {
        self.tallies().values().map(|tally| tally.sends).sum()
    }

    /// How many were worked on at once at most.
    pub fn in_flight_max(&self) -> usize {
        let counts = self.0.iter().map(|event| match event {
            BrokerEvent::Sent { in_flight, .. } => *in_flight,
            _ => 0,
        });
        counts.max().unwrap_or_default()
    }

    /// When anything was sent.
    pub fn all_sent_at(&self) -> Vec<Timestamp> {
        let times = self.0.iter().filter_map(|event| match event {
            BrokerEvent::Sent { at, .. } => Some(*at),
            _ => None,
        });
        times.collect()
    }

    /// When a key was sent.
    pub fn sent_at(&self, wanted: &str) -> Vec<Timestamp> {
        let times = self.0.iter().filter_map(|event| match event {
            BrokerEvent::Sent { key, at, .. } => (key == wanted).then_some(*at),
            _ => None,
        });
        times.collect()
    }

    /// The sends of a key: headers and body.
    pub fn sends(&self, wanted: &str) -> Vec<(&BTreeMap<String, String>, &str)> {
        let sends = self.0.iter().filter_map(|event| match event {
            BrokerEvent::Sent {
                key, headers, body, ..
            } => (key == wanted).then_some((headers, body.as_str())),
            _ => None,
        });
        sends.collect()
    }
}

/// The end of the file, where events are added.
#[derive(Debug)]
pub(super) struct JournalWriter(File);

impl JournalWriter {
    pub(super) fn at(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(file.expect("open the broker's journal"))
    }

    /// Adds a line. It outlives the process; that the machine may fail is not what is tested here.
    pub(super) fn write(&mut self, event: &BrokerEvent) {
        let mut line = serde_json::to_string(event).expect("an event is JSON");
        line.push('\n');
        self.0
            .write_all(line.as_bytes())
            .expect("write the broker's journal");
    }
}
