//! Observer of a synchronisation: shows progress, and stops at failpoints.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use consign_app::progress::Progress;
use consign_scm::{Point, SyncHooks};
use consign_worker::failpoint::failpoint;

/// Shows progress, and stops at failpoints of tests: `scm.after-batch` at the first batch,
/// `scm.after-batch.3` at the third.
#[derive(Debug, Default)]
pub(crate) struct Hooks<'a> {
    progress: Option<&'a Progress>,
    fetches: AtomicU64,
    batches: AtomicU64,
    patches: AtomicU64,
}

impl<'a> Hooks<'a> {
    pub(crate) fn showing(progress: &'a Progress) -> Self {
        Self {
            progress: Some(progress),
            ..Self::default()
        }
    }
}

#[async_trait]
impl SyncHooks for Hooks<'_> {
    async fn reached(&self, point: Point) {
        let name = point.as_str();
        let number = match point {
            Point::AfterFetch => self.fetches.fetch_add(1, Ordering::Relaxed) + 1,
            Point::AfterBatch => self.batches.fetch_add(1, Ordering::Relaxed) + 1,
            Point::BeforePatch => self.patches.fetch_add(1, Ordering::Relaxed) + 1,
            Point::AfterPatch => self.patches.load(Ordering::Relaxed),
        };
        failpoint(&format!("scm.{name}")).await;
        failpoint(&format!("scm.{name}.{number}")).await;
    }

    fn progressed(&self, progress: consign_scm::Progress) {
        if let Some(shown) = self.progress {
            shown.set(progress.done, progress.total);
        }
    }
}
