//! Trying again what the network spoilt.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use crate::ScmError;

/// Waits for a while. Tests do not.
pub type Wait = Arc<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// How often something is tried, and how long to wait in between.
#[derive(Clone)]
pub struct Retry {
    /// Tries in all.
    pub tries_max: u32,
    /// Before the second try; it doubles from there.
    pub first_wait: Duration,
    /// How to wait.
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
    /// Repeats what fails with [`ScmError::Network`], and nothing else: a refusal stays one.
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
