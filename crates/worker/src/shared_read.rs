//! A slow read: one at a time, shared by all callers meanwhile.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

/// An answer that took longer is kept for a while.
const LONG: Duration = Duration::from_millis(500);
/// How long it is kept, in times of how long it took: so much of the time at least, the database has
/// rest from it.
const KEPT_TIMES: u32 = 10;
const KEPT_MAX: Duration = Duration::from_secs(30);

/// One read for all callers while it runs.
///
/// A caller gets the result of a read that began after the call, unless the last one took long and is
/// kept. A read goes on when its callers have gone: the database would not stop either.
pub struct SharedRead<T> {
    last: Arc<Mutex<Option<Answer<T>>>>,
}

struct Answer<T> {
    began_at: Instant,
    kept_until: Instant,
    value: T,
}

impl<T> Default for SharedRead<T> {
    fn default() -> Self {
        Self {
            last: Arc::default(),
        }
    }
}

impl<T> fmt::Debug for SharedRead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRead").finish_non_exhaustive()
    }
}

impl<T: Clone + Send + 'static> SharedRead<T> {
    /// The result, by `read` if no other caller's can be shared.
    pub async fn get<F>(&self, read: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        let asked_at = Instant::now();
        let read = read();
        let last = Arc::clone(&self.last);
        let task = tokio::spawn(async move {
            let mut last = last.lock().await;
            let began_at = Instant::now();
            match &*last {
                Some(known) if known.began_at >= asked_at || known.kept_until > began_at => {
                    return known.value.clone();
                }
                _ => {}
            }
            let value = read.await;
            let took = began_at.elapsed();
            *last = Some(Answer {
                began_at,
                kept_until: began_at + took + retention(took),
                value: value.clone(),
            });
            value
        });
        match task.await {
            Ok(value) => value,
            Err(gone) => std::panic::resume_unwind(gone.into_panic()),
        }
    }
}

fn retention(took: Duration) -> Duration {
    if took > LONG {
        (took * KEPT_TIMES).min(KEPT_MAX)
    } else {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use tokio::time::{advance, timeout};

    use super::*;

    #[derive(Default)]
    struct Database {
        reads: Arc<AtomicU32>,
        at_once: Arc<AtomicU32>,
    }

    /// Lets the test's clock run so far.
    async fn pass(time: Duration) {
        drop(timeout(time, std::future::pending::<()>()).await);
    }

    impl Database {
        /// A read that takes `took` and returns its number.
        fn read(&self, took: Duration) -> impl Future<Output = u32> + Send + 'static {
            let (reads, at_once) = (Arc::clone(&self.reads), Arc::clone(&self.at_once));
            async move {
                assert_eq!(at_once.fetch_add(1, Relaxed), 0, "one at a time");
                pass(took).await;
                at_once.fetch_sub(1, Relaxed);
                reads.fetch_add(1, Relaxed) + 1
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_during_a_read_share_the_next_one() {
        let (shared, database) = (SharedRead::default(), Database::default());
        let took = Duration::from_millis(400);
        let ask = || shared.get(|| database.read(took));
        let first = ask();
        let later = async {
            pass(Duration::from_millis(1)).await;
            futures_util::future::join_all((0..24).map(|_| ask())).await
        };
        let (first, later) = tokio::join!(first, later);
        assert_eq!(first, 1);
        assert_eq!(
            later, [2; 24],
            "no caller gets a read that began before its call"
        );
        assert_eq!(ask().await, 3, "a short read is not kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_read_is_kept_ten_times_as_long_as_it_took() {
        let (shared, database) = (SharedRead::default(), Database::default());
        let ask = || shared.get(|| database.read(Duration::from_secs(1)));
        assert_eq!(ask().await, 1);
        advance(Duration::from_secs(9)).await;
        assert_eq!(ask().await, 1);
        advance(Duration::from_secs(2)).await;
        assert_eq!(ask().await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_continues_when_its_callers_have_left() {
        let (shared, database) = (SharedRead::default(), Database::default());
        let ask = || shared.get(|| database.read(Duration::from_secs(1)));
        for _ in 0..24 {
            assert!(timeout(Duration::from_millis(10), ask()).await.is_err());
        }
        assert_eq!(ask().await, 1, "the read that all of them left");
    }
}
