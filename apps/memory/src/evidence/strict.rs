//! What strict projects ask of evidence.

use serde_json::{Value, json};

use super::{Evidence, classify};
use crate::{policy::EvidenceMode, uri::is_sha256};

/// As much of a malformed hash is shown.
const SHOWN_CHARS: usize = 16;

/// What the check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrictReport {
    /// What the write is rejected for: `<CODE>:evidence[i]…`.
    pub errors: Vec<String>,
    /// What is only told.
    pub warnings: Vec<String>,
}

impl StrictReport {
    /// The reason of the audit if the write is rejected: the first error's code.
    pub fn reason(&self) -> Option<String> {
        let first = self.errors.first()?;
        let code = first.split(':').next().unwrap_or_default();
        Some(format!("EVIDENCE_VALIDATION_FAILED:{code}"))
    }

    /// As audits keep it.
    pub fn to_value(&self) -> Value {
        json!({
            "is_valid": self.errors.is_empty(), "error_codes": self.errors,
            "compat_warnings": self.warnings,
        })
    }
}

/// Checks evidence as strict projects want it: a URI and a hash for each piece, and no other hash than
/// the URI's own. Asked of every space, private ones included.
pub fn check_strict(evidence: &Evidence) -> StrictReport {
    let mut report = StrictReport::default();
    let mismatches = classify(evidence).mismatches;
    for (index, item) in evidence.items.iter().enumerate() {
        let (uri, sha256) = (item.uri(), item.sha256());
        let place = format!("evidence[{index}]");
        if uri.is_empty() {
            report.errors.push(format!("EVIDENCE_MISSING_URI:{place}"));
        } else if sha256.is_empty() && item.is_legacy() {
            let warning = format!("EVIDENCE_LEGACY_NO_SHA256:{place}:{uri}");
            report.warnings.push(warning);
        } else if sha256.is_empty() {
            report
                .errors
                .push(format!("EVIDENCE_MISSING_SHA256:{place}:{uri}"));
        } else if !is_sha256(sha256) {
            let shown: String = sha256.chars().take(SHOWN_CHARS).collect();
            report
                .errors
                .push(format!("EVIDENCE_INVALID_SHA256:{place}:{shown}..."));
        } else if mismatches.contains(&index) {
            report
                .errors
                .push(format!("EVIDENCE_SHA256_MISMATCH:{place}:{uri}"));
        }
    }
    report
}

/// Whether references are checked, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidateRefs {
    /// Whether they are.
    pub is_on: bool,
    /// The word for audits.
    pub reason: &'static str,
}

/// Whether references are checked: strict projects decide if they are enforced, else the caller, else
/// the configuration (`validate_evidence_refs`).
pub fn resolve_validate_refs(
    mode: EvidenceMode,
    is_strict_enforced: bool,
    configured: bool,
    caller: Option<bool>,
) -> ValidateRefs {
    let (is_on, reason) = match (mode, caller) {
        (EvidenceMode::Strict, _) if is_strict_enforced => (true, "strict_enforced"),
        (EvidenceMode::Strict, Some(wanted)) => (wanted, "strict_caller_override"),
        (EvidenceMode::Strict, None) => (configured, "strict_env_override"),
        (EvidenceMode::Compat, Some(wanted)) => (wanted, "compat_caller_override"),
        (EvidenceMode::Compat, None) => (configured, "compat_default"),
    };
    ValidateRefs { is_on, reason }
}
