//! Resource usage of processes, from Linux.

use std::{fs, time::Duration};

use anyhow::{Context, Result};

/// Processor time of all threads of a process.
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).context("look at a process")?;
    let mut ns = 0;
    for thread in threads {
        // A thread may end while we look; what it used is lost, and is little.
        let path = thread?.path().join("schedstat");
        let text = fs::read_to_string(path).unwrap_or_default();
        let used = text.split(' ').next().and_then(|text| text.parse().ok());
        ns += used.unwrap_or(0_u64);
    }
    Ok(Duration::from_nanos(ns))
}

/// Memory of a process that is in RAM, in MiB.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    mib(pid, "VmRSS:")
}

/// The most it had in RAM since it started.
pub(crate) fn peak_resident_mib(pid: u32) -> Result<f64> {
    mib(pid, "VmHWM:")
}

/// What it has in RAM that no file or other process shares.
pub(crate) fn private_mib(pid: u32) -> Result<f64> {
    mib(pid, "RssAnon:")
}

fn mib(pid: u32, field: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("look at a process")?;
    let line = text.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(kib.context("the process has no memory")? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let pid = std::process::id();
        assert!(processor_time(pid).unwrap() > Duration::ZERO);
        assert!(resident_mib(pid).unwrap() > 0.5);
        assert!(peak_resident_mib(pid).unwrap() >= private_mib(pid).unwrap());
    }
}
