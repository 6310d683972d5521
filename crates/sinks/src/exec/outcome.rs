//! What an exit code leads to.

use std::{collections::BTreeMap, os::unix::process::ExitStatusExt, process::ExitStatus};

use consign_kernel::Outcome;
use consign_worker::{About, Verdict};

use super::ExecConfig;
use crate::SinkError;

/// The table of outcomes by exit code, with the configuration's exceptions.
#[derive(Debug)]
pub(super) struct Outcomes {
    exceptions: BTreeMap<i32, Outcome>,
}

impl Outcomes {
    pub(super) fn new(config: &ExecConfig) -> Result<Self, SinkError> {
        let mut exceptions = BTreeMap::new();
        let lists = [
            (
                "delivered_exit_codes",
                &config.delivered_exit_codes,
                Outcome::Delivered,
            ),
            ("retry_exit_codes", &config.retry_exit_codes, Outcome::Retry),
            ("dead_exit_codes", &config.dead_exit_codes, Outcome::Dead),
            (
                "uncertain_exit_codes",
                &config.uncertain_exit_codes,
                Outcome::Uncertain,
            ),
        ];
        for (option, exit_codes, outcome) in lists {
            for &exit_code in exit_codes {
                if !(0..=255).contains(&exit_code) {
                    let reason = format!("names {exit_code}; an exit code is 0 to 255");
                    return Err(SinkError::invalid(option, reason));
                }
                if exceptions
                    .insert(exit_code, outcome)
                    .is_some_and(|other| other != outcome)
                {
                    let reason = format!("names {exit_code}, which another list names too");
                    return Err(SinkError::invalid(option, reason));
                }
            }
        }
        Ok(Self { exceptions })
    }

    pub(super) fn verdict(&self, status: ExitStatus) -> Verdict {
        let Some(exit_code) = status.code() else {
            let signal = status.signal().unwrap_or_default();
            let detail = format!("ended by signal {signal}");
            let code = format!("exec_signal_{signal}");
            return Verdict::failed(Outcome::Uncertain, About::Sink, code, detail);
        };
        let exception = self.exceptions.get(&exit_code).copied();
        let outcome = exception.unwrap_or_else(|| usual(exit_code));
        if outcome == Outcome::Delivered {
            return Verdict::delivered();
        }
        // A dead outcome is about that message; any other failure may
        // well meet the next one too.
        let about = match outcome {
            Outcome::Dead => About::Message,
            _ => About::Sink,
        };
        let meaning = meaning(exit_code)
            .map(|word| format!(" ({word})"))
            .unwrap_or_default();
        let detail = format!("exited with {exit_code}{meaning}");
        Verdict::failed(outcome, about, format!("exec_exit_{exit_code}"), detail)
    }
}

/// The names of `sysexits.h`: 64 and 65 mean wrong input, the others that the time or the
/// place is.
fn usual(exit_code: i32) -> Outcome {
    match exit_code {
        0 => Outcome::Delivered,
        64 | 65 => Outcome::Dead,
        _ => Outcome::Retry,
    }
}

fn meaning(exit_code: i32) -> Option<&'static str> {
    let word = match exit_code {
        64 => "EX_USAGE",
        65 => "EX_DATAERR",
        66 => "EX_NOINPUT",
        67 => "EX_NOUSER",
        68 => "EX_NOHOST",
        69 => "EX_UNAVAILABLE",
        70 => "EX_SOFTWARE",
        71 => "EX_OSERR",
        72 => "EX_OSFILE",
        73 => "EX_CANTCREAT",
        74 => "EX_IOERR",
        75 => "EX_TEMPFAIL",
        76 => "EX_PROTOCOL",
        77 => "EX_NOPERM",
        78 => "EX_CONFIG",
        _ => return None,
    };
    Some(word)
}
