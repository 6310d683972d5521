//! The end: stop claiming, finish what is under way, stop answering.

use std::time::Duration;

use consign_worker::{Summary, WorkerHandle};
use tokio::time::timeout;

use super::{RunningService, signals::Signals, watchdog::Watchdog};
use crate::failure::Exit;

/// What the last words may take after the second signal.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// How long requests may take whose clients have hung up: what an app began is finished.
const HUNG_UP: Duration = Duration::from_secs(10);

impl RunningService {
    /// Drains, or stops at once on a second signal.
    ///
    /// With `all_or_wrong`, whatever was not delivered is something wrong.
    pub(super) async fn drain(
        mut self,
        signals: &mut Signals,
        watchdog: Watchdog,
        all_or_wrong: bool,
    ) -> Exit {
        let background = std::mem::take(&mut self.background);
        for work in &background {
            work.stop();
        }
        let exit = self.finish(signals, watchdog, all_or_wrong).await;
        if exit == Exit::Fine {
            for work in background {
                work.ended().await;
            }
        }
        exit
    }

    async fn finish(self, signals: &mut Signals, watchdog: Watchdog, all_or_wrong: bool) -> Exit {
        tracing::info!("stopping: no more claims, finishing what is under way");
        self.state.drain();
        watchdog.stopping();
        self.worker.drain();
        let summary = tokio::select! {
            summary = self.worker.finished() => summary,
            exit = signals.stop() => return at_once(&self.worker, exit).await,
        };
        log_summary(&summary);
        let failed = summary.retried + summary.dead + summary.uncertain + summary.late;
        if all_or_wrong && failed + summary.unrecorded + summary.interrupted > 0 {
            return Exit::Wrong;
        }
        let Some(http) = self.http else {
            return Exit::Fine;
        };
        if http.has_failed() {
            return Exit::Wrong;
        }
        let ended = async {
            http.stop().await;
            if timeout(HUNG_UP, self.state.finished()).await.is_err() {
                tracing::warn!(
                    "requests of disconnected clients were cut off; their committed writes are \
                     kept"
                );
            }
        };
        tokio::select! {
            () = ended => Exit::Fine,
            exit = signals.stop() => exit,
        }
    }
}

async fn at_once(worker: &WorkerHandle, exit: Exit) -> Exit {
    tracing::warn!("second stop signal: stopping at once");
    worker.stop_now();
    match timeout(LAST_WORDS, worker.finished()).await {
        Ok(summary) => log_summary(&summary),
        Err(_) => tracing::warn!("deliveries were cut off; their leases expire by themselves"),
    }
    exit
}

fn log_summary(summary: &Summary) {
    let Summary {
        delivered,
        retried,
        dead,
        uncertain,
        released,
        late,
        interrupted,
        unrecorded,
    } = summary;
    let mut lost = String::new();
    if *interrupted > 0 {
        lost += &format!(", {interrupted} cut off");
    }
    if *late > 0 {
        lost += &format!(", {late} results too late for their lease");
    }
    if *unrecorded > 0 {
        lost += &format!(
            "; {unrecorded} results could not be recorded: their messages may be delivered again"
        );
    }
    tracing::info!(
        delivered,
        retried,
        dead,
        uncertain,
        released,
        late,
        interrupted,
        unrecorded,
        "stopped: {delivered} delivered, {retried} to be retried, {dead} dead, {uncertain} \
         uncertain, {released} released{lost}"
    );
}
