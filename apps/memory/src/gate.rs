//! The FULL gate: checks that all required capabilities work.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Capabilities of a gateway, by their names in switches.
pub const CAPABILITIES: [&str; 6] = [
    "openmemory",
    "audit",
    "outbox",
    "memory_query",
    "reconcile",
    "degradation",
];

/// Required completeness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum GateMode {
    /// Everything must work.
    Full,
    /// Failures are only reported.
    Degraded,
}

/// Status of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    /// It works.
    Ok,
    /// It does not.
    Failed,
    /// It was not tried.
    Skipped,
}

/// Capabilities that need not be tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips(BTreeSet<String>);

impl Skips {
    /// None.
    pub fn none() -> Self {
        Self::default()
    }

    /// By configuration: `skip_<capability> = true`.
    pub fn with_config<'a>(self, switches: impl IntoIterator<Item = (&'a str, bool)>) -> Self {
        let named = switches.into_iter().filter(|(_, is_on)| *is_on);
        let named = named.filter_map(|(key, _)| key.strip_prefix("skip_"));
        self.with(named.map(str::to_ascii_lowercase))
    }

    /// By environment: `GATEWAY_SKIP_<CAPABILITY>=1`.
    pub fn with_env<'a>(self, variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let is_on = |value: &str| {
            let value = value.trim().to_ascii_lowercase();
            ["1", "true", "yes"].contains(&value.as_str())
        };
        let named = variables.into_iter().filter(|(_, value)| is_on(value));
        let named = named.filter_map(|(name, _)| name.strip_prefix("GATEWAY_SKIP_"));
        self.with(named.map(str::to_ascii_lowercase))
    }

    /// By request: `{"skip": ["<capability>"]}`.
    pub fn with_request<'a>(self, skip: impl IntoIterator<Item = &'a str>) -> Self {
        self.with(skip.into_iter().map(str::to_ascii_lowercase))
    }

    /// Whether this one is skipped.
    pub fn contains(&self, capability: &str) -> bool {
        self.0.contains(&capability.to_ascii_lowercase())
    }

    fn with(mut self, capabilities: impl Iterator<Item = String>) -> Self {
        self.0.extend(capabilities);
        self
    }
}

/// Result of the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateResult {
    /// Whether the gate passes.
    pub passed: bool,
    /// Why not: the first failing capability.
    pub reason: Option<String>,
    /// Capabilities that failed or were not tried.
    pub missing: Vec<String>,
}

/// Checks the required capabilities. Further reported ones count as well, after the required ones.
///
/// A switch excuses a capability that was not tried, never one that failed.
pub fn check(
    mode: GateMode,
    required: &[&str],
    reported: &[(&str, Capability)],
    skips: &Skips,
) -> GateResult {
    let status = |name: &str| {
        let known = reported.iter().find(|(reported, _)| *reported == name);
        known.map(|(_, status)| *status)
    };
    let beyond = reported.iter().map(|(name, _)| *name);
    let names = required.iter().copied();
    let names = names.chain(beyond.filter(|name| !required.contains(name)));
    let (mut missing, mut reason) = (Vec::new(), None);
    for name in names {
        let status = status(name);
        if status == Some(Capability::Ok) {
            continue;
        }
        missing.push(name.to_owned());
        let is_excused = status != Some(Capability::Failed) && skips.contains(name);
        if mode == GateMode::Full && !is_excused && reason.is_none() {
            reason = Some(match status {
                Some(Capability::Skipped) => {
                    format!("FULL mode: {name} skipped without explicit config")
                }
                Some(_) => format!("FULL mode: required capability {name} failed"),
                None => format!("FULL mode: required capability {name} missing"),
            });
        }
    }
    GateResult {
        passed: reason.is_none(),
        reason,
        missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Capability::{Failed, Ok, Skipped};
    use GateMode::{Degraded, Full};

    /// The three places of a switch.
    fn switches() -> [Skips; 3] {
        [
            Skips::none().with_config([("skip_reconcile", true)]),
            Skips::none().with_env([("GATEWAY_SKIP_RECONCILE", "1")]),
            Skips::none().with_request(["reconcile"]),
        ]
    }

    fn reason(mode: GateMode, reported: &[(&str, Capability)], skips: &Skips) -> Option<String> {
        let result = check(mode, &["reconcile"], reported, skips);
        assert_eq!(result.passed, result.reason.is_none());
        result.reason
    }

    /// What is reported, and the reasons without and with a switch.
    type Row = (
        GateMode,
        &'static [(&'static str, Capability)],
        Option<&'static str>,
        Option<&'static str>,
    );

    #[test]
    fn what_is_required_works_or_is_skipped_on_purpose() {
        let skipped = "FULL mode: reconcile skipped without explicit config";
        let failed = "FULL mode: required capability reconcile failed";
        let missing = "FULL mode: required capability reconcile missing";
        let table: [Row; 7] = [
            (Full, &[("reconcile", Ok)], None, None),
            (Full, &[("reconcile", Skipped)], Some(skipped), None),
            (Full, &[], Some(missing), None),
            (Full, &[("reconcile", Failed)], Some(failed), Some(failed)),
            (Degraded, &[("reconcile", Failed)], None, None),
            (Degraded, &[("reconcile", Skipped)], None, None),
            (Degraded, &[], None, None),
        ];
        for (mode, reported, without, with) in table {
            let case = format!("{mode:?} {reported:?}");
            let answer = reason(mode, reported, &Skips::none());
            assert_eq!(answer.as_deref(), without, "{case}");
            for skips in switches() {
                let answer = reason(mode, reported, &skips);
                assert_eq!(answer.as_deref(), with, "{case} {skips:?}");
            }
        }
    }

    #[test]
    fn the_first_capability_in_the_way_is_named() {
        let reported = [("outbox", Failed), ("audit", Skipped), ("more", Failed)];
        let result = check(
            Full,
            &["audit", "outbox", "query"],
            &reported,
            &Skips::none(),
        );
        let reason = "FULL mode: audit skipped without explicit config";
        assert_eq!(result.reason.as_deref(), Some(reason));
        assert_eq!(result.missing, ["audit", "outbox", "query", "more"]);
        // A failed capability that is not required fails the gate too.
        let reported = [("query", Ok), ("more", Failed)];
        let result = check(Full, &["query"], &reported, &Skips::none());
        let reason = "FULL mode: required capability more failed";
        assert_eq!(result.reason.as_deref(), Some(reason));
    }

    #[test]
    fn a_switch_that_is_off_excuses_nothing() {
        let off = Skips::none()
            .with_config([("skip_reconcile", false), ("reconcile", true)])
            .with_env([("GATEWAY_SKIP_RECONCILE", "0"), ("SKIP_RECONCILE", "1")])
            .with_request(["outbox"]);
        assert!(!off.contains("reconcile"));
        assert!(off.contains("OUTBOX"));
        let answer = reason(Full, &[("reconcile", Skipped)], &off);
        assert!(answer.is_some());
    }
}
