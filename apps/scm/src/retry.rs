//! Retries after network failures.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::ScmError;

/// Waits for a duration. Replaced in tests.
pub type Wait = Arc<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Number of tries and the waits between them.
#[derive(Clone)]
pub struct Retry {
    /// Total number of tries.
    pub tries_max: u32,
    /// Wait before the second try; doubles from there.
    pub first_wait: Duration,
    /// The wait function.
    pub wait: Wait,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            tries_max: 3,
            first_wait: Duration::from_secs(1),
            wait: Arc::new(|for_how_long| Box::pin(tokio::time::sleep(for_how_long))),
        }
    }
}

impl Retry {
    /// Retries [`ScmError::Network`] and nothing else: a rejection is final.
    pub async fn run<T, F>(&self, mut work: impl FnMut() -> F) -> Result<T, ScmError>
    where
        F: Future<Output = Result<T, ScmError>>,
    {
        let mut tried = 1;
        loop {
            match work().await {
                Err(ScmError::Network { .. }) if tried < self.tries_max => {}
                Err(ScmError::Network {
                    source_name,
                    detail,
                    ..
                }) => {
                    return Err(ScmError::Network {
                        source_name,
                        tries: tried,
                        detail,
                    });
                }
                other => return other,
            }
            (self.wait)(self.first_wait * 2_u32.saturating_pow(tried - 1)).await;
            tried += 1;
        }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("tries_max", &self.tries_max)
            .field("first_wait", &self.first_wait)
            .finish_non_exhaustive()
    }
}
