//! Cache for slow answers: computed outside of the request, once for all callers, and kept for a
//! while. Only the first caller waits, for a short time.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// How long the first caller waits.
const PATIENCE: Duration = Duration::from_millis(250);

/// A cached answer.
#[derive(Debug)]
pub(crate) struct AnswerCache<T> {
    kept: watch::Sender<CachedAnswer<T>>,
}

#[derive(Debug)]
struct CachedAnswer<T> {
    answer: Option<(Instant, Arc<T>)>,
    is_sought: bool,
}

impl<T> Default for AnswerCache<T> {
    fn default() -> Self {
        let kept = CachedAnswer {
            answer: None,
            is_sought: false,
        };
        Self {
            kept: watch::Sender::new(kept),
        }
    }
}

/// Clears the flag if the computation fails or panics.
struct RefreshGuard<T>(Arc<AnswerCache<T>>);

impl<T> Drop for RefreshGuard<T> {
    fn drop(&mut self) {
        self.0.kept.send_modify(|kept| kept.is_sought = false);
    }
}

impl<T: Send + Sync + 'static> AnswerCache<T> {
    /// The last answer. One older than `lasts` is recomputed outside of the request; `None`: there
    /// is none yet.
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
            let (seeking, found) = (RefreshGuard(Arc::clone(self)), seek());
            tokio::spawn(async move {
                let answer = Arc::new(found.await);
                let cache = &seeking.0;
                cache
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
        let cache = Arc::new(AnswerCache::default());
        let sought = Arc::new(AtomicU32::new(0));
        let seek = || {
            let sought = Arc::clone(&sought);
            async move { sought.fetch_add(1, Ordering::Relaxed) }
        };
        let (one, other) = tokio::join!(cache.look(LASTS, seek), cache.look(LASTS, seek));
        assert_eq!((one.as_deref(), other.as_deref()), (Some(&0), Some(&0)));
        advance(LASTS - Duration::from_secs(1)).await;
        assert_eq!(cache.look(LASTS, seek).await.as_deref(), Some(&0));
        advance(Duration::from_secs(2)).await;
        let stale = cache.look(LASTS, seek).await;
        assert_eq!(stale.as_deref(), Some(&0), "callers get the stale answer");
        tokio::task::yield_now().await;
        assert_eq!(cache.look(LASTS, seek).await.as_deref(), Some(&1));
        assert_eq!(sought.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_time_out_and_a_failure_is_not_cached() {
        let cache = Arc::new(AnswerCache::<u32>::default());
        let started = Instant::now();
        let none = cache.look(LASTS, std::future::pending::<u32>).await;
        assert_eq!(none, None);
        assert_eq!(started.elapsed(), PATIENCE);
        let broken = Arc::new(AnswerCache::<u32>::default());
        assert_eq!(
            broken
                .look(LASTS, || async { panic!("injected panic") })
                .await,
            None
        );
        assert_eq!(
            broken.look(LASTS, || async { 7 }).await.as_deref(),
            Some(&7)
        );
    }
}
