//! How much memory a process and those it started have had at most.

use std::{fs, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::{process::Child, time::interval};

/// Often enough for what takes seconds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The most memory, in MiB.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryPeak {
    /// Of the process, as the kernel keeps it.
    pub(super) own_mib: f64,
    /// Of its children together, at each sample.
    pub(super) children_mib: f64,
}

/// Waits for a process to end well, and looks at its memory meanwhile.
pub(super) async fn watched(mut child: Child) -> Result<MemoryPeak> {
    let pid = child.id().context("invariant: it has not ended")?;
    let mut looks = interval(LOOK_EVERY);
    let mut peak = MemoryPeak::default();
    loop {
        tokio::select! {
            status = child.wait() => {
                let status = status?;
                ensure!(status.success(), "consign ended with {status}");
                return Ok(peak);
            }
            _ = looks.tick() => look(pid, &mut peak),
        }
    }
}

fn look(pid: u32, peak: &mut MemoryPeak) {
    // A process that has just ended has none.
    peak.own_mib = peak.own_mib.max(mib(pid, "VmHWM:").unwrap_or_default());
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let listed = children.collect::<Vec<_>>().join(" ");
    let pids = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
    let together = pids.filter_map(|pid: u32| mib(pid, "VmRSS:")).sum();
    peak.children_mib = peak.children_mib.max(together);
}

fn mib(pid: u32, name: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}
