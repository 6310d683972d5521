#![doc = include_str!("../README.md")]

use std::sync::OnceLock;

/// Kills the process here if `CONSIGN_FAILPOINT` names this point.
#[inline]
pub fn kill_at(point: &str) {
    let is_point = |active: &str| active.strip_suffix(":kill") == Some(point);
    if cfg!(debug_assertions) && active_point().is_some_and(is_point) {
        kill();
    }
}

/// Stops this task for ever if `CONSIGN_FAILPOINT` names this point, after creating the file
/// `CONSIGN_FAILPOINT_FILE`, for which the test waits.
#[inline]
pub async fn stop_at(point: &str) {
    if cfg!(debug_assertions) && active_point() == Some(point) {
        if let Some(file) = std::env::var_os("CONSIGN_FAILPOINT_FILE") {
            std::fs::write(file, point).expect("CONSIGN_FAILPOINT_FILE can be written");
        }
        std::future::pending::<()>().await;
    }
}

fn active_point() -> Option<&'static str> {
    static ACTIVE: OnceLock<Option<String>> = OnceLock::new();
    let active = ACTIVE.get_or_init(|| std::env::var("CONSIGN_FAILPOINT").ok());
    active.as_deref()
}

fn kill() -> ! {
    // The shell's own `kill` needs neither unsafe code nor a dependency.
    let kill = format!("kill -9 {}", std::process::id());
    std::process::Command::new("sh")
        .args(["-c", &kill])
        .status()
        .expect("invariant: there is a shell wherever failpoints are used");
    loop {
        std::thread::park();
    }
}
