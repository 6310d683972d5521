//! A scripted sink that records its deliveries.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use async_trait::async_trait;
use consign_kernel::{MessageId, Outcome};
use consign_worker::{About, Delivery, Probe, Sink, Verdict};
use tokio::{sync::watch, time::Instant};

type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Script<T> = Box<dyn Fn(Delivery) -> Answer<T> + Send + Sync>;

/// What a sink saw of one delivery.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryRecord {
    pub(crate) id: MessageId,
    pub(crate) at: Instant,
}

pub(crate) struct ScriptedSink {
    script: Script<Verdict>,
    probe: Option<Script<Probe>>,
    seen: Mutex<Vec<DeliveryRecord>>,
    finished: AtomicUsize,
    now: Arc<AtomicUsize>,
    most: AtomicUsize,
    probed: AtomicUsize,
}

/// Counts a delivery as under way until it ends or is dropped.
struct DeliveryGuard(Arc<AtomicUsize>);

impl Drop for DeliveryGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl ScriptedSink {
    pub(crate) fn new<F>(script: impl Fn(Delivery) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Verdict> + Send + 'static,
    {
        Arc::new(Self::bare(script))
    }

    /// With an answer to probes.
    pub(crate) fn with_probe<F, P>(
        script: impl Fn(Delivery) -> F + Send + Sync + 'static,
        probe: impl Fn(Delivery) -> P + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Verdict> + Send + 'static,
        P: Future<Output = Probe> + Send + 'static,
    {
        Arc::new(Self {
            probe: Some(Box::new(move |delivery| Box::pin(probe(delivery)))),
            ..Self::bare(script)
        })
    }

    fn bare<F>(script: impl Fn(Delivery) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Verdict> + Send + 'static,
    {
        Self {
            script: Box::new(move |delivery| Box::pin(script(delivery))),
            probe: None,
            seen: Mutex::default(),
            finished: AtomicUsize::new(0),
            now: Arc::default(),
            most: AtomicUsize::new(0),
            probed: AtomicUsize::new(0),
        }
    }

    /// Takes everything at once.
    pub(crate) fn willing() -> Arc<Self> {
        Self::new(|_| async { Verdict::delivered() })
    }

    /// Takes everything, after a trip through the runtime.
    pub(crate) fn yielding() -> Arc<Self> {
        Self::new(|_| async {
            tokio::task::yield_now().await;
            Verdict::delivered()
        })
    }

    /// Takes everything once the gate is open.
    pub(crate) fn gated(gate: &Gate) -> Arc<Self> {
        let gate = gate.clone();
        Self::new(move |_| {
            let gate = gate.clone();
            async move {
                gate.passed().await;
                Verdict::delivered()
            }
        })
    }

    /// Never answers.
    pub(crate) fn hanging() -> Arc<Self> {
        Self::gated(&Gate::default())
    }

    /// Fails as a sink that is down does.
    pub(crate) fn down() -> Arc<Self> {
        Self::new(|_| async { down() })
    }

    /// Every delivery started, in order.
    pub(crate) fn seen(&self) -> Vec<DeliveryRecord> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn seen_ids(&self) -> Vec<MessageId> {
        let mut ids: Vec<MessageId> = self.seen().iter().map(|seen| seen.id).collect();
        ids.sort();
        ids
    }

    /// Deliveries under way now.
    pub(crate) fn now(&self) -> usize {
        self.now.load(SeqCst)
    }

    /// Most deliveries under way at once so far.
    pub(crate) fn most(&self) -> usize {
        self.most.load(SeqCst)
    }

    /// Deliveries that ended without being cut off.
    pub(crate) fn finished(&self) -> usize {
        self.finished.load(SeqCst)
    }

    pub(crate) fn probed(&self) -> usize {
        self.probed.load(SeqCst)
    }
}

/// The verdict of a sink that is down.
pub(crate) fn down() -> Verdict {
    Verdict::failed(Outcome::Retry, About::Sink, "down", "connection refused")
}

impl fmt::Debug for ScriptedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptedSink")
    }
}

#[async_trait]
impl Sink for ScriptedSink {
    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn destination(&self) -> &str {
        "a test"
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        let _under_way = DeliveryGuard(Arc::clone(&self.now));
        self.most.fetch_max(now, SeqCst);
        self.seen.lock().unwrap().push(DeliveryRecord {
            id: delivery.message.id,
            at: Instant::now(),
        });
        let verdict = (self.script)(delivery.clone()).await;
        self.finished.fetch_add(1, SeqCst);
        verdict
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        self.probed.fetch_add(1, SeqCst);
        match &self.probe {
            Some(probe) => probe(delivery.clone()).await,
            None => Probe::CannotTell("not expected in this test".to_owned()),
        }
    }
}

/// Holds deliveries back until it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn close(&self) {
        self.0.send_replace(false);
    }

    pub(crate) async fn passed(&self) {
        let mut opened = self.0.subscribe();
        opened.wait_for(|is_open| *is_open).await.unwrap();
    }
}
