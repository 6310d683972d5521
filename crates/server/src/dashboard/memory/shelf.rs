//! An answer that takes long to find: found beside the request, once for all who ask, and kept for a
//! while. Nobody waits for it but the first to ask, and that one not long.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// How long the first to ask waits.
const PATIENCE: Duration = Duration::from_millis(250);

/// Where an answer is kept.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    kept: watch::Sender<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    answer: Option<(Instant, Arc<T>)>,
    is_sought: bool,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        let kept = Kept {
            answer: None,
            is_sought: false,
        };
        Self {
            kept: watch::Sender::new(kept),
        }
    }
}

/// Whoever seeks may fail to come back.
struct Seeking<T>(Arc<Shelf<T>>);

impl<T> Drop for Seeking<T> {
    fn drop(&mut self) {
        self.0.kept.send_modify(|kept| kept.is_sought = false);
    }
}

impl<T: Send + Sync + 'static> Shelf<T> {
    /// The last answer. One older than `lasts` is sought anew, beside the request; none: there has
    /// been none yet.
    pub(super) async fn look<F>(
        self: &Arc<Self>,
        lasts: Duration,
        seek: impl FnOnce() -> F,
    ) -> Option<Arc<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let is_fresh = |(at, _): &(Instant, Arc<T>)| at.elapsed() < lasts;
        let is_wanted = self.kept.send_if_modified(|kept| {
            let is_wanted = !kept.is_sought && !kept.answer.as_ref().is_some_and(is_fresh);
            kept.is_sought |= is_wanted;
            is_wanted
        });
        if is_wanted {
            let (seeking, found) = (Seeking(Arc::clone(self)), seek());
            tokio::spawn(async move {
                let answer = Arc::new(found.await);
                let shelf = &seeking.0;
                shelf
                    .kept
                    .send_modify(|kept| kept.answer = Some((Instant::now(), answer)));
            });
        }
        let mut changes = self.kept.subscribe();
        let there = changes.wait_for(|kept| kept.answer.is_some());
        let kept = timeout(PATIENCE, there).await.ok()?.ok()?;
        let (_, answer) = kept.answer.as_ref()?;
        Some(Arc::clone(answer))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::advance;

    use super::*;

    const LASTS: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_sought_once_and_kept_for_a_while() {
        let shelf = Arc::new(Shelf::default());
        let sought = Arc::new(AtomicU32::new(0));
        let seek = || {
            let sought = Arc::clone(&sought);
            async move { sought.fetch_add(1, Ordering::Relaxed) }
        };
        let (one, other) = tokio::join!(shelf.look(LASTS, seek), shelf.look(LASTS, seek));
        assert_eq!((one.as_deref(), other.as_deref()), (Some(&0), Some(&0)));
        advance(LASTS - Duration::from_secs(1)).await;
        assert_eq!(shelf.look(LASTS, seek).await.as_deref(), Some(&0));
        advance(Duration::from_secs(2)).await;
        let stale = shelf.look(LASTS, seek).await;
        assert_eq!(stale.as_deref(), Some(&0), "nobody waits for a new one");
        tokio::task::yield_now().await;
        assert_eq!(shelf.look(LASTS, seek).await.as_deref(), Some(&1));
        assert_eq!(sought.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_and_a_failure_is_not_for_ever() {
        let shelf = Arc::new(Shelf::<u32>::default());
        let started = Instant::now();
        let none = shelf.look(LASTS, std::future::pending::<u32>).await;
        assert_eq!(none, None);
        assert_eq!(started.elapsed(), PATIENCE);
        let broken = Arc::new(Shelf::<u32>::default());
        assert_eq!(
            broken.look(LASTS, || async { panic!("it broke") }).await,
            None
        );
        assert_eq!(
            broken.look(LASTS, || async { 7 }).await.as_deref(),
            Some(&7)
        );
    }
}
