//! An in-process broker: follows a script and records what it was sent.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use async_trait::async_trait;
use consign_orders::{
    Broker, BrokerFailure, BrokerLookup, ExecResult, OutgoingOrder, Paper, Reason,
};
use tokio::sync::watch;

/// What it does about one send.
#[derive(Clone, Debug)]
pub(crate) enum BrokerAction {
    /// Fails like this.
    Fails(BrokerFailure),
    /// Executes the order and loses the answer.
    Loses,
    /// Executes it and answers something else about it.
    Says(fn(&mut ExecResult)),
    /// Never answers.
    Hangs,
}

/// One send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SendRecord {
    pub(crate) key: String,
    pub(crate) attempt_no: u32,
    pub(crate) order: String,
}

#[derive(Debug)]
pub(crate) struct Fixture {
    script: Mutex<VecDeque<BrokerAction>>,
    sent: Mutex<Vec<SendRecord>>,
    executed: Mutex<BTreeMap<String, ExecResult>>,
    queries: AtomicUsize,
    under_way: AtomicUsize,
    under_way_max: AtomicUsize,
    takes_keys: bool,
    has_status_query: bool,
    /// Whether it answers questions.
    is_mute: bool,
    is_open: watch::Sender<bool>,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            script: Mutex::default(),
            sent: Mutex::default(),
            executed: Mutex::default(),
            queries: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            under_way_max: AtomicUsize::new(0),
            takes_keys: true,
            has_status_query: false,
            is_mute: false,
            is_open: watch::Sender::new(true),
        }
    }
}

impl Fixture {
    /// Does this about its first sends.
    pub(crate) fn scripted(script: impl IntoIterator<Item = BrokerAction>) -> Self {
        Self {
            script: Mutex::new(script.into_iter().collect()),
            ..Self::default()
        }
    }

    /// The same, but it executes every order and has a status query.
    pub(crate) fn without_keys(self) -> Self {
        Self {
            takes_keys: false,
            has_status_query: true,
            ..self
        }
    }

    /// The same, with a status query.
    pub(crate) fn askable(self) -> Self {
        Self {
            has_status_query: true,
            ..self
        }
    }

    /// The same, but status queries get no answer.
    pub(crate) fn mute(self) -> Self {
        Self {
            is_mute: true,
            ..self
        }
    }

    /// Takes orders, but does nothing about them while it is closed.
    pub(crate) fn open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    pub(crate) fn sent(&self) -> Vec<SendRecord> {
        self.sent.lock().unwrap().clone()
    }

    pub(crate) fn queries(&self) -> usize {
        self.queries.load(SeqCst)
    }

    pub(crate) fn under_way_max(&self) -> usize {
        self.under_way_max.load(SeqCst)
    }

    async fn act(&self, outgoing: &OutgoingOrder<'_>) -> Result<ExecResult, BrokerFailure> {
        let mut is_open = self.is_open.subscribe();
        drop(is_open.wait_for(|is_open| *is_open).await);
        let does = self.script.lock().unwrap().pop_front();
        if let Some(BrokerAction::Fails(failure)) = does {
            return Err(failure);
        }
        if let Some(BrokerAction::Hangs) = does {
            std::future::pending::<()>().await;
        }
        let known = self.executed.lock().unwrap().get(outgoing.key).cloned();
        let mut result = match known.filter(|_| self.takes_keys) {
            Some(result) => result,
            None => Paper::default().send(outgoing).await?,
        };
        if let Some(BrokerAction::Says(change)) = does {
            change(&mut result);
        }
        let mut executed = self.executed.lock().unwrap();
        executed.insert(outgoing.key.to_owned(), result.clone());
        match does {
            Some(BrokerAction::Loses) => {
                let lost = BrokerFailure::new(Reason::BrokerTimeout, "the answer was lost");
                Err(lost.uncertain())
            }
            _ => Ok(result),
        }
    }
}

#[async_trait]
impl Broker for Fixture {
    fn name(&self) -> &'static str {
        "desk"
    }

    fn takes_keys(&self) -> bool {
        self.takes_keys
    }

    fn has_status_query(&self) -> bool {
        self.has_status_query
    }

    async fn send(&self, outgoing: &OutgoingOrder<'_>) -> Result<ExecResult, BrokerFailure> {
        self.sent.lock().unwrap().push(SendRecord {
            key: outgoing.key.to_owned(),
            attempt_no: outgoing.attempt_no,
            order: outgoing.order.to_json(),
        });
        let under_way = self.under_way.fetch_add(1, SeqCst) + 1;
        self.under_way_max.fetch_max(under_way, SeqCst);
        let answer = self.act(outgoing).await;
        self.under_way.fetch_sub(1, SeqCst);
        answer
    }

    async fn status(&self, key: &str) -> BrokerLookup {
        self.queries.fetch_add(1, SeqCst);
        if self.is_mute {
            return BrokerLookup::Unknown("it does not answer".to_owned());
        }
        match self.executed.lock().unwrap().get(key) {
            Some(result) => BrokerLookup::Executed(Box::new(result.clone())),
            None => BrokerLookup::NotExecuted,
        }
    }
}

pub(crate) fn fails(reason: Reason) -> BrokerAction {
    BrokerAction::Fails(BrokerFailure::new(reason, format!("{reason} by script")))
}
