//! Named points at which a test can end the process, as a crash would.

/// Ends the process here if `CONSIGN_FAIL=<point>:kill` names this point.
///
/// Without the feature `failpoints` this is nothing.
#[cfg(not(feature = "failpoints"))]
pub fn point(_name: &'static str) {}

/// Ends the process here if `CONSIGN_FAIL=<point>:kill` names this point.
#[cfg(feature = "failpoints")]
pub fn point(name: &'static str) {
    let wanted = std::env::var("CONSIGN_FAIL").unwrap_or_default();
    if wanted.strip_suffix(":kill") == Some(name) {
        kill();
    }
}

#[cfg(feature = "failpoints")]
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

/// Ends the process before the commit of an app's operation if `CONSIGN_FAIL=before_commit:<operation>:kill`
/// names it.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn point_before_commit(_attempted: &str) {}

/// Ends the process before the commit of an app's operation if `CONSIGN_FAIL=before_commit:<operation>:kill`
/// names it.
#[cfg(feature = "failpoints")]
pub(crate) fn point_before_commit(attempted: &str) {
    let wanted = std::env::var("CONSIGN_FAIL").unwrap_or_default();
    if wanted == format!("before_commit:{attempted}:kill") {
        kill();
    }
}

/// The same, but only for one kind of operation.
pub(crate) fn point_of(attempted: &str, wanted: &str, name: &'static str) {
    if attempted == wanted {
        point(name);
    }
}
