//! Places where a test may stop the process for good, to kill it there.
//!
//! Only in debug builds, and only where the environment says so.

/// Stops this task for ever if `CONSIGN_PARK_AT` names the point, after making the file
/// `CONSIGN_PARK_FILE`, which tells the test.
#[cfg(debug_assertions)]
pub async fn park(point: &str) {
    use std::{env, fs, sync::OnceLock};

    static AT: OnceLock<Option<String>> = OnceLock::new();
    let at = AT.get_or_init(|| env::var("CONSIGN_PARK_AT").ok());
    if at.as_deref() != Some(point) {
        return;
    }
    if let Some(file) = env::var_os("CONSIGN_PARK_FILE") {
        fs::write(file, point).expect("the file that tells the test can be written");
    }
    std::future::pending::<()>().await;
}

/// Does nothing.
#[cfg(not(debug_assertions))]
#[inline]
pub async fn park(_point: &str) {}

/// The same at a point of every queue: `QUEUE.POINT`.
#[cfg(debug_assertions)]
pub(crate) async fn park_in(queue: &consign_kernel::QueueName, point: &str) {
    park(&format!("{queue}.{point}")).await;
}

/// Does nothing.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) async fn park_in(_queue: &consign_kernel::QueueName, _point: &str) {}
