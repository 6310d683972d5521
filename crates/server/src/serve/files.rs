//! How many connections the process's limit of open files allows.

use rustix::process::{Resource, getrlimit};

use super::{StartError, admission};
use crate::options::ServerOptions;

/// Files besides connections of clients and those to the database: logs, files of apps, sinks,
/// programs, the runtime's own.
const RESERVED: usize = 48;
/// Connections below which the server does not start.
const CONNECTIONS_MIN: usize = 8;

/// As many connections as configured, but half of the files that the process may open are left to
/// the database, the sinks and everything else.
pub(super) fn connections_max(options: &ServerOptions) -> Result<usize, StartError> {
    let files = getrlimit(Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok());
    let wanted = options.connections_max;
    let Some(files) = files else {
        return Ok(wanted);
    };
    let max = within(files, RESERVED + options.other_files)?;
    if max < wanted {
        tracing::warn!(
            "server.connections_max = {wanted} is more than this process may have with {files} open \
             files: at most {max} connections; raise the limit (ulimit -n, LimitNOFILE)"
        );
    }
    Ok(max.min(wanted))
}

/// Half of the files, less where the rest would not be enough for everything else.
fn within(files: usize, others: usize) -> Result<usize, StartError> {
    let at_once = (files / 2).min(files.saturating_sub(others));
    let max = admission::within(at_once);
    if max < CONNECTIONS_MIN {
        let at_once = admission::at_once(CONNECTIONS_MIN);
        let needed = (at_once * 2).max(at_once + others);
        return Err(StartError::TooFewFiles { files, needed });
    }
    Ok(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_files_to_the_database_and_refuses_to_start_without_any() {
        let others = RESERVED + 17;
        assert_eq!(within(21_000, others).unwrap(), 7_000);
        for files in [89, 100, 128, 256, 1_024] {
            let at_once = admission::at_once(within(files, others).unwrap());
            assert!(at_once + others <= files, "{files}: {at_once}");
        }
        for files in [0, 20, 64, 88] {
            let refusal = within(files, others).unwrap_err().to_string();
            assert!(refusal.contains("needs 89"), "{files}: {refusal}");
        }
    }
}
